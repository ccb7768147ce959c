"""For kernels of one's own: NumPy's functions, whose large results lie in the memory pool.

Inside ``run_kernel(kernel, *arrays)`` NumPy's own functions take large results from the pool, and say nothing
of overflow or division by zero. ``empty``, ``zeros`` and ``copy`` do the first everywhere. ``xp`` is NumPy as
derivatives see it. The other names are what `nn` is made of: most of these compiled functions trust their
arguments, and shapes or dtypes other than they say may end the process.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from tensor.kernels.context import in_kernels, run_kernel
from tensor.kernels.namespace import xp
from tensor.memory.buffer import copy, empty, zeros

if TYPE_CHECKING:
    from tensor.kernels.affine import affine_by_bias, affine_by_input, affine_by_weight
    from tensor.kernels.attention import attention_backward, attention_forward, attention_kept
    from tensor.kernels.axis_maps import AxisMap, map_axes
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
    "AxisMap",
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
    "in_kernels",
    "inverses_of",
    "largest_of_windows",
    "map_axes",
    "mean_cross_entropy",
    "moments_of_channels",
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
    "xp",
    "zeros",
]

# Only networks need these: each is loaded when it is first used, from this module of `tensor.kernels`.
_OF_NETWORKS = {
    "AxisMap": "axis_maps",
    "Geometry": "convolution",
    "add_at_places": "pooling",
    "affine_by_bias": "affine",
    "affine_by_input": "affine",
    "affine_by_weight": "affine",
    "as_one_dtype": "normalization",
    "attention_backward": "attention",
    "attention_forward": "attention",
    "attention_kept": "attention",
    "blend": "normalization",
    "columns_of_patches": "convolution",
    "convolve": "convolution",
    "convolve_for_weight": "convolution",
    "convolve_transposed": "convolution",
    "inverses_of": "normalization",
    "largest_of_windows": "pooling",
    "map_axes": "axis_maps",
    "mean_cross_entropy": "softmax",
    "moments_of_channels": "normalization",
    "normalize_channels": "normalization",
    "normalize_channels_backward": "normalization",
    "normalize_rows": "normalization",
    "normalize_rows_backward": "normalization",
    "patches_of_columns": "convolution",
    "recurrent_backward": "recurrent",
    "recurrent_forward": "recurrent",
    "relu_of": "special",
    "sigmoid": "special",
    "silu": "special",
    "take_places": "pooling",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _OF_NETWORKS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_import_module(f"tensor.kernels.{_OF_NETWORKS[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_NETWORKS})
