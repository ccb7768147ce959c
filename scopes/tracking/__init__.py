"""Tracking: where disposables were created, leaks, the tree of scopes, reports, timelines and traces."""
