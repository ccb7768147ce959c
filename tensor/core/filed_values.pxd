"""Tensor values stored in a file. For `cimport`."""

cimport numpy as cnp


cdef class FiledValues:
    cdef readonly tuple shape
    cdef readonly cnp.dtype dtype
    # A weak reference to the array that owned the memory when the values were written to the file.
    # `layout` has the offset and strides of the values in that array, or is None if they fill it.
    cdef object root
    cdef tuple layout

    cdef int remember(self, cnp.ndarray array, cnp.ndarray root) except -1
    cdef cnp.ndarray array_in_memory(self)
