"""Reports: leaks, the history of a run, the tree of scopes, pages, timelines, the live view."""
