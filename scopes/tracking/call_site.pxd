"""The line of the user's code that this thread runs: the interface for ``cimport``."""

# The site of the innermost `depth` lines of the user's code.
cpdef object call_site(long depth=*)
