"""Assertions about created, disposed and leaked tensors, for any test framework.

The pytest plugin (`scopes.testing.plugin`) uses the same functions.
"""

from scopes.testing.assertions import StatisticsWindow, assert_dispose_counts, assert_no_leaks

__all__ = ["StatisticsWindow", "assert_dispose_counts", "assert_no_leaks"]
