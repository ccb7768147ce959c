"""Which instruction set kernels use. For `cimport`."""

# What `name_kernels_of` of a family takes (simd.h): 0 for the baseline, 1 for AVX2, 2 for AVX-512. Read when
# a module of kernels is imported, and the same from then on.
cdef int simd_level
