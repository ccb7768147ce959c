"""For tests, in any framework: what was created and disposed, and whether anything is left.

The pytest plugin (`scopes.testing.plugin`) stands on the same.
"""

from scopes.testing.assertions import StatisticsWindow, assert_dispose_counts, assert_no_leaks

__all__ = ["StatisticsWindow", "assert_dispose_counts", "assert_no_leaks"]
