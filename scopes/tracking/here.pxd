"""Where in the user's code this thread is: the interface for ``cimport``."""

# The site of the user's innermost lines, `depth` of them.
cdef object here(long depth)
