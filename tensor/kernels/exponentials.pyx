"""Exponentials, logarithms, and activations based on them: float32 and float64, errors of at most 2 ulp.

As in IEEE 754 and C, nan stays nan, infinities and zeros give the limits, and subnormal results are rounded
like others. silu(-inf) is -0.
"""

from tensor.kernels.elementwise cimport EXPENSIVE, Loops, slope_kernel, unary_kernel
from tensor.kernels.simd cimport simd_level

import numpy as np

cdef extern from "tensor/kernels/exponentials.h" namespace "disposescope::kernels" nogil:
    struct Exponentials:
        Loops exp, log, tanh, sigmoid, silu, softplus, logsigmoid
        Loops tanh_slope, sigmoid_slope, silu_slope, softplus_slope, logsigmoid_slope
    const Exponentials* exponentials_kernels_of(int level)

cdef const Exponentials* _loops = exponentials_kernels_of(simd_level)

exp = unary_kernel(_loops.exp, EXPENSIVE, np.exp)
log = unary_kernel(_loops.log, EXPENSIVE, np.log)
tanh = unary_kernel(_loops.tanh, EXPENSIVE, np.tanh)
# NumPy lacks these functions, so `plain` is None, and callers convert arrays first.
sigmoid = unary_kernel(_loops.sigmoid, EXPENSIVE, None)
silu = unary_kernel(_loops.silu, EXPENSIVE, None)
softplus = unary_kernel(_loops.softplus, EXPENSIVE, None)
logsigmoid = unary_kernel(_loops.logsigmoid, EXPENSIVE, None)

tanh_slope = slope_kernel(_loops.tanh_slope, EXPENSIVE)
sigmoid_slope = slope_kernel(_loops.sigmoid_slope, EXPENSIVE)
silu_slope = slope_kernel(_loops.silu_slope, EXPENSIVE)
softplus_slope = slope_kernel(_loops.softplus_slope, EXPENSIVE)
logsigmoid_slope = slope_kernel(_loops.logsigmoid_slope, EXPENSIVE)
