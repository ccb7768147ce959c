"""Affine maps. For `cimport`."""

cimport numpy as cnp

from tensor.kernels.elementwise cimport UnaryKernel

# ``x @ weight.T + bias``, where `bias` may be None, and then perhaps ReLU, in a new array; to be run in a
# kernel context.
cpdef cnp.ndarray affine(cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified)

# What `function` makes of ``x @ weight.T + bias``, both in one pass: first what it was made of if `keeps`,
# else None, then itself. None where `function` is not for these arrays. To be run in a kernel context.
cdef tuple affine_then(cnp.ndarray x, cnp.ndarray weight, object bias, UnaryKernel function, bint keeps)
