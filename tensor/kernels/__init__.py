"""Support for custom kernels: NumPy functions with results from the memory pool.

Inside ``run_kernel(kernel, *arrays)``, NumPy allocates large results from the pool, and warnings for overflow
and division by zero are off. ``empty``, ``zeros`` and ``copy`` use the pool everywhere. ``xp`` is the NumPy
namespace for derivatives. The other names are kernels for `nn`. Most of these compiled functions do not check
their arguments: unsupported shapes or dtypes may crash the process.
"""

from typing import TYPE_CHECKING

from scopes.lowlevel import names_on_demand as _names_on_demand
from tensor.core.bfloat16 import in_float32, widen, write_wide
from tensor.kernels.context import in_kernels, run_kernel
from tensor.kernels.namespace import xp
from tensor.memory.buffer import copy, empty, zeros

if TYPE_CHECKING:
    from tensor.kernels.affine import affine_by_bias, affine_by_input, affine_by_weight
    from tensor.kernels.arithmetic import hardsigmoid, hardswish
    from tensor.kernels.attention import attention_backward, attention_forward, attention_kept
    from tensor.kernels.axis_matrices import AxisMatrix, multiply_axes
    from tensor.kernels.convolution import (
        Geometry,
        columns_of_patches,
        convolve,
        convolve_for_weight,
        convolve_transposed,
        patches_of_columns,
    )
    from tensor.kernels.normalization import (
        as_one_dtype,
        blend,
        inverses_of,
        moments_of_channels,
        normalize_channels,
        normalize_channels_backward,
        normalize_rows,
        normalize_rows_backward,
    )
    from tensor.kernels.pooling import add_at_places, largest_of_windows, take_places
    from tensor.kernels.recurrent import recurrent_backward, recurrent_forward
    from tensor.kernels.softmax import mean_cross_entropy
    from tensor.kernels.special import relu_of, sigmoid, silu

__all__ = [
    "AxisMatrix",
    "Geometry",
    "add_at_places",
    "affine_by_bias",
    "affine_by_input",
    "affine_by_weight",
    "as_one_dtype",
    "attention_backward",
    "attention_forward",
    "attention_kept",
    "blend",
    "columns_of_patches",
    "convolve",
    "convolve_for_weight",
    "convolve_transposed",
    "copy",
    "empty",
    "hardsigmoid",
    "hardswish",
    "in_float32",
    "in_kernels",
    "inverses_of",
    "largest_of_windows",
    "mean_cross_entropy",
    "moments_of_channels",
    "multiply_axes",
    "normalize_channels",
    "normalize_channels_backward",
    "normalize_rows",
    "normalize_rows_backward",
    "patches_of_columns",
    "recurrent_backward",
    "recurrent_forward",
    "relu_of",
    "run_kernel",
    "sigmoid",
    "silu",
    "take_places",
    "widen",
    "write_wide",
    "xp",
    "zeros",
]

# Only `nn` needs these.
_OF_NETWORKS = {
    "AxisMatrix": "tensor.kernels.axis_matrices",
    "Geometry": "tensor.kernels.convolution",
    "add_at_places": "tensor.kernels.pooling",
    "affine_by_bias": "tensor.kernels.affine",
    "affine_by_input": "tensor.kernels.affine",
    "affine_by_weight": "tensor.kernels.affine",
    "as_one_dtype": "tensor.kernels.normalization",
    "attention_backward": "tensor.kernels.attention",
    "attention_forward": "tensor.kernels.attention",
    "attention_kept": "tensor.kernels.attention",
    "blend": "tensor.kernels.normalization",
    "columns_of_patches": "tensor.kernels.convolution",
    "convolve": "tensor.kernels.convolution",
    "convolve_for_weight": "tensor.kernels.convolution",
    "convolve_transposed": "tensor.kernels.convolution",
    "hardsigmoid": "tensor.kernels.arithmetic",
    "hardswish": "tensor.kernels.arithmetic",
    "inverses_of": "tensor.kernels.normalization",
    "largest_of_windows": "tensor.kernels.pooling",
    "multiply_axes": "tensor.kernels.axis_matrices",
    "mean_cross_entropy": "tensor.kernels.softmax",
    "moments_of_channels": "tensor.kernels.normalization",
    "normalize_channels": "tensor.kernels.normalization",
    "normalize_channels_backward": "tensor.kernels.normalization",
    "normalize_rows": "tensor.kernels.normalization",
    "normalize_rows_backward": "tensor.kernels.normalization",
    "patches_of_columns": "tensor.kernels.convolution",
    "recurrent_backward": "tensor.kernels.recurrent",
    "recurrent_forward": "tensor.kernels.recurrent",
    "relu_of": "tensor.kernels.special",
    "sigmoid": "tensor.kernels.special",
    "silu": "tensor.kernels.special",
    "take_places": "tensor.kernels.pooling",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _OF_NETWORKS)
