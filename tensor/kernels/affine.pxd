"""Affine maps. For `cimport`."""

cimport numpy as cnp

# ``x @ weight.T + bias``, where `bias` may be None, and then perhaps ReLU, in a new array; to be run in a
# kernel context.
cpdef cnp.ndarray affine(cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified)
