"""The error function, and activations based on the normal distribution: float32 and float64.

docs/accuracy.md lists the errors. They are as low where erfc and gelu are small. gelu(-inf) is -0.
"""

from tensor.kernels.elementwise cimport DEAR, Loops, slope_kernel, unary_kernel
from tensor.kernels.simd cimport simd_level

cdef extern from "tensor/kernels/gaussian.h" namespace "disposescope::kernels" nogil:
    struct Gaussian:
        Loops erf, erfc, gelu, gelu_by_tanh
        Loops erf_slope, gelu_slope, gelu_by_tanh_slope
    const Gaussian* gaussian_kernels_of(int level)

cdef const Gaussian* _loops = gaussian_kernels_of(simd_level)

# NumPy has no such functions to fall back on: callers make the array fit first.
erf = unary_kernel(_loops.erf, DEAR, None)
erfc = unary_kernel(_loops.erfc, DEAR, None)
gelu = unary_kernel(_loops.gelu, DEAR, None)
gelu_by_tanh = unary_kernel(_loops.gelu_by_tanh, DEAR, None)

erf_slope = slope_kernel(_loops.erf_slope, DEAR)
gelu_slope = slope_kernel(_loops.gelu_slope, DEAR)
gelu_by_tanh_slope = slope_kernel(_loops.gelu_by_tanh_slope, DEAR)
