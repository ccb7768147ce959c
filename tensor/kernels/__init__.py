"""For kernels of one's own: NumPy's functions, whose large results lie in the memory pool.

Inside ``run_kernel(kernel, *arrays)`` NumPy's own functions take large results from the pool, and say nothing
of overflow or division by zero. ``empty``, ``zeros`` and ``copy`` do the first everywhere. ``xp`` is NumPy as
derivatives see it.
"""

from tensor.kernels.affine import affine_by_bias, affine_by_input, affine_by_weight
from tensor.kernels.context import in_kernels, run_kernel
from tensor.kernels.namespace import xp
from tensor.kernels.special import relu_of, sigmoid
from tensor.memory.buffer import copy, empty, zeros

__all__ = [
    "affine_by_bias",
    "affine_by_input",
    "affine_by_weight",
    "copy",
    "empty",
    "in_kernels",
    "relu_of",
    "run_kernel",
    "sigmoid",
    "xp",
    "zeros",
]
