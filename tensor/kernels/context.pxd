"""Kernel contexts. For `cimport`."""

# Enter a kernel context: NumPy's warnings for overflow and division by zero are off and, if `pooled`, NumPy
# allocates from the pool. `leave` must follow, with the result of `enter`.
cdef object enter(bint pooled)
cdef int leave(object context, bint pooled) except -1
