"""The error function, and activations based on the normal distribution: float32 and float64.

docs/accuracy.md lists the errors. They are as low where erfc and gelu are close to 0. gelu(-inf) is -0.
"""

from tensor.kernels.elementwise cimport EXPENSIVE, Loops, slope_kernel, unary_kernel
from tensor.kernels.simd cimport simd_level

cdef extern from "tensor/kernels/gaussian.h" namespace "disposescope::kernels" nogil:
    struct Gaussian:
        Loops erf, erfc, gelu, gelu_by_tanh
        Loops erf_slope, gelu_slope, gelu_by_tanh_slope
    const Gaussian* gaussian_kernels_of(int level)

cdef const Gaussian* _loops = gaussian_kernels_of(simd_level)

# NumPy lacks these functions, so `plain` is None, and callers convert arrays first.
erf = unary_kernel(_loops.erf, EXPENSIVE, None)
erfc = unary_kernel(_loops.erfc, EXPENSIVE, None)
gelu = unary_kernel(_loops.gelu, EXPENSIVE, None)
gelu_by_tanh = unary_kernel(_loops.gelu_by_tanh, EXPENSIVE, None)

erf_slope = slope_kernel(_loops.erf_slope, EXPENSIVE)
gelu_slope = slope_kernel(_loops.gelu_slope, EXPENSIVE)
gelu_by_tanh_slope = slope_kernel(_loops.gelu_by_tanh_slope, EXPENSIVE)
