"""Tensor values stored in a file. For `cimport`."""

cimport numpy as cnp


cdef class FiledValues:
    cdef readonly tuple shape
    cdef readonly cnp.dtype dtype
