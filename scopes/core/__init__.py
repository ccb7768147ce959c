"""Compiled core: disposables, scopes, the current scope, and counters."""
