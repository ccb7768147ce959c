"""Plain arithmetic of float32 and float64, rounded as in IEEE 754, with the same results as NumPy."""

from tensor.kernels.elementwise cimport CHEAP, BinaryLoops, Loops, binary_kernel, unary_kernel
from tensor.kernels.simd cimport simd_level

import numpy as np

cdef extern from "tensor/kernels/arithmetic.h" namespace "disposescope::kernels" nogil:
    struct Arithmetic:
        BinaryLoops add, subtract, multiply, divide, maximum, minimum
        Loops negative, absolute, square, sqrt, reciprocal, reciprocal_root, relu, hardsigmoid, hardswish
    const Arithmetic* arithmetic_kernels_of(int level)

cdef const Arithmetic* _loops = arithmetic_kernels_of(simd_level)


def _reciprocal_root(x):
    return np.reciprocal(np.sqrt(x))


def _relu(x, out=None):
    return np.maximum(x, 0, out=out)


def _hardsigmoid(x, out=None):
    return np.divide(np.clip(x + 3, 0, 6), 6, out=out)


def _hardswish(x, out=None):
    return np.divide(x * np.clip(x + 3, 0, 6), 6, out=out)


add = binary_kernel(_loops.add, np.add, True)
subtract = binary_kernel(_loops.subtract, np.subtract, False)
multiply = binary_kernel(_loops.multiply, np.multiply, True)
divide = binary_kernel(_loops.divide, np.divide, False)
maximum = binary_kernel(_loops.maximum, np.maximum, False)
minimum = binary_kernel(_loops.minimum, np.minimum, False)
negative = unary_kernel(_loops.negative, CHEAP, np.negative)
absolute = unary_kernel(_loops.absolute, CHEAP, np.absolute)
square = unary_kernel(_loops.square, CHEAP, np.square)
sqrt = unary_kernel(_loops.sqrt, CHEAP, np.sqrt)
reciprocal = unary_kernel(_loops.reciprocal, CHEAP, np.reciprocal)
reciprocal_root = unary_kernel(_loops.reciprocal_root, CHEAP, _reciprocal_root)
relu = unary_kernel(_loops.relu, CHEAP, _relu)
hardsigmoid = unary_kernel(_loops.hardsigmoid, CHEAP, _hardsigmoid)
hardswish = unary_kernel(_loops.hardswish, CHEAP, _hardswish)
