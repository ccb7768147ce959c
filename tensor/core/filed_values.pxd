"""Tensor values stored in a file. For `cimport`."""

cimport numpy as cnp


cdef class FiledValues:
    cdef readonly tuple shape
    cdef readonly cnp.dtype dtype
    # The array that owns the memory from which the values were written, as a weak reference; and the position
    # and strides of the values in it, or None if they are that array.
    cdef object root
    cdef tuple layout

    cdef int remember(self, cnp.ndarray array, cnp.ndarray root) except -1
    cdef cnp.ndarray array_in_memory(self)
