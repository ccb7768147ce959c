"""The instruction set of kernels. For `cimport`."""

# The argument of `name_kernels_of` of a family (simd.h): 0 for the baseline, 1 for AVX2, 2 for AVX-512. It is
# set before modules of kernels are imported, and never changes.
cdef int simd_level
