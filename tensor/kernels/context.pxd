"""Where kernels run. For `cimport`."""

# Enter a context in which NumPy says nothing of overflow and division by zero and, if `pooled`, takes its
# memory from the allocator; `leave` must follow with what this returns.
cdef object enter(bint pooled)
cdef int leave(object context, bint pooled) except -1
