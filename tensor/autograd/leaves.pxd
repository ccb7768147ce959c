"""The gradients of leaves. For `cimport`."""


# Add gradients to those of their leaves: all of them, or none if an error occurs.
cdef int accumulate(list found) except -1
