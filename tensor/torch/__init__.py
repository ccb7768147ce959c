"""PyTorch's API: programs for PyTorch run with ``import tensor.torch as torch``.

It is a thin layer of names and call forms on `tensor` and `nn`, without a second implementation. ``import
tensor.torch.nn as nn``, ``tensor.torch.nn.functional``, ``.optim``, ``.utils.data``, ``.autograd``,
``.distributions`` export the same objects under PyTorch's names.
"""

from importlib import import_module as _import_module
from math import e, inf, nan, pi

import nn as _nn

if not hasattr(_nn, "Module"):
    raise ImportError(
        f"{_nn.__file__} has the name of the package `nn` of disposescope, and Python finds it instead: "
        "rename it, or move it into a package",
        name="nn",
    )

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import public_names as _public_names
from tensor import Device as device  # noqa: N813 -- PyTorch's name, as below
from tensor import (
    Generator,
    OutOfMemoryError,
    Tensor,
    bfloat16,
    bool,
    broadcast_shapes,
    broadcast_tensors,
    complex64,
    complex128,
    enable_grad,
    finfo,
    float16,
    float32,
    float64,
    from_dlpack,
    from_numpy,
    get_num_threads,
    iinfo,
    inference_mode,
    int8,
    int16,
    int32,
    int64,
    is_grad_enabled,
    is_inference_mode_enabled,
    manual_seed,
    no_grad,
    result_type,
    set_grad_enabled,
    set_num_threads,
    set_printoptions,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensor import complex64 as cfloat
from tensor import complex128 as cdouble
from tensor import float16 as half
from tensor import float32 as float
from tensor import float64 as double
from tensor import int16 as short
from tensor import int32 as int
from tensor import int64 as long
from tensor._dtypes import Dtype as dtype  # noqa: N813
from tensor.core.untyped_storage import UntypedStorage
from tensor.torch.amp import autocast
from tensor.torch.composing import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.creation import *  # noqa: F403
from tensor.torch.functions import *  # noqa: F403
from tensor.torch.joining import *  # noqa: F403
from tensor.torch.lu_factors import lu_unpack
from tensor.torch.promotion import can_cast, promote_types
from tensor.torch.randomness import default_generator, get_rng_state, initial_seed, seed, set_rng_state
from tensor.torch.serialization import load, save
from tensor.torch.settings import *  # noqa: F403
from tensor.torch.typed import *  # noqa: F403
from tensor.torch.version import __version__ as __version__

# Namespaces and functions that are loaded on first use. PyTorch has these functions in two places.
_NAMESPACES = (
    "accelerator amp autograd backends cuda distributions fft func linalg masked nn onnx optim profiler "
    "serialization signal special testing utils version"
)
_FUNCTIONS = (
    "adaptive_avg_pool1d avg_pool1d bilinear celu channel_shuffle conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity group_norm hardshrink layer_norm max_pool1d "
    "max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm selu "
    "threshold"
)
_WINDOWS = "bartlett_window blackman_window hamming_window hann_window kaiser_window"
_ON_DEMAND = {
    **{name: f"tensor.torch.{name}" for name in _NAMESPACES.split()},
    **dict.fromkeys(_FUNCTIONS.split(), "tensor.torch.nn.functional"),
    **dict.fromkeys(("det", "matrix_power", "slogdet"), "tensor.torch.linalg"),
    **dict.fromkeys(_WINDOWS.split(), "tensor.torch.windows"),
    "vmap": "tensor.torch.mapping",
}

__all__ = _public_names(globals(), _ON_DEMAND)

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])

__getattr__, __dir__ = _names_on_demand(
    globals(),
    _ON_DEMAND,
    advice=lambda name: _import_module("tensor._advice").torch_name_advice(name),
)
