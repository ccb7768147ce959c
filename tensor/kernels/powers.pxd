"""Powers with a constant exponent. For `cimport`."""

cimport numpy as cnp


cdef class PowerKernel:
    cdef cnp.ndarray run(self, object x, object n, cnp.ndarray out)
