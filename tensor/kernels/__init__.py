"""Support for custom kernels: NumPy functions with results from the memory pool.

Inside ``run_kernel(kernel, *arrays)``, NumPy allocates large results from the pool, and warnings for overflow
and division by zero are off. ``empty``, ``zeros`` and ``copy`` use the pool everywhere. ``xp`` is the NumPy
namespace for derivatives. ``in_float32``, ``widen`` and ``write_wide`` are for bfloat16. The names that load
on first use are kernels for `nn`. Most compiled kernels do not check their arguments: unsupported shapes or
dtypes may crash the process.
"""

from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from scopes._shared.on_demand import public_names as _public_names
from tensor.core.promotion import in_float32, widen, write_wide
from tensor.kernels.elementwise import hardsigmoid, hardswish
from tensor.kernels.namespace import xp
from tensor.kernels.products import affine_by_bias, affine_by_input, affine_by_weight
from tensor.kernels.reductions import (
    as_one_dtype,
    blend,
    inverses_of,
    mean_cross_entropy,
    moments_of_channels,
    normalize_channels,
    normalize_channels_backward,
    normalize_rows,
    normalize_rows_backward,
)
from tensor.kernels.running import in_kernels, run_kernel
from tensor.kernels.special import relu_of, sigmoid, silu
from tensor.memory.buffer import copy, empty, zeros

# Loaded on first use, because only `nn` needs these.
_ON_DEMAND = _origins_of(
    {
        "tensor.kernels.axis_matrices": "AxisMatrix multiply_axes",
        "tensor.kernels.convolution": (
            "columns_of_patches convolve convolve_for_weight convolve_transposed patches_of_columns"
        ),
        "tensor.kernels.geometry": "Geometry",
        "tensor.kernels.networks": (
            "add_at_places attention_backward attention_forward attention_kept largest_of_windows "
            "recurrent_backward recurrent_forward take_places"
        ),
    }
)

__all__ = _public_names(globals(), _ON_DEMAND)

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
