"""Powers by one number. For `cimport`."""

cimport numpy as cnp


cdef class PowerKernel:
    cdef cnp.ndarray run(self, object x, object n, cnp.ndarray out)
