"""Affine maps. For `cimport`."""

cimport numpy as cnp

from tensor.kernels.elementwise cimport UnaryKernel

# Return ``x @ weight.T + bias`` in a new array; `bias` may be None. Apply ReLU if `is_rectified`. Call it
# inside a kernel context.
cpdef cnp.ndarray affine(cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified)

# Return ``y = x @ weight.T + bias`` (None unless `keeps`) and ``function(y)``, computed in one pass. Return
# None if `function` does not support these arrays. Call it inside a kernel context.
cdef tuple affine_then(cnp.ndarray x, cnp.ndarray weight, object bias, UnaryKernel function, bint keeps)
