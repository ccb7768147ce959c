"""Tracking: who created what and where, leaks, the tree of scopes, reports, timelines and traces."""
