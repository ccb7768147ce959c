"""The gradients of leaves. For `cimport`."""


# Add the gradients that backward found to those of their leaves: all of them, or none if one raises.
cdef int accumulate(list found) except -1
