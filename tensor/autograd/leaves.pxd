"""The gradients of leaves. For `cimport`."""


# Add the gradients that were found, an Arrival each, to those of their leaves: all of them, or on an error
# none.
cdef int accumulate(list found) except -1
