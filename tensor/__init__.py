"""Tensors on NumPy with deterministic lifetimes and autograd."""

from importlib import import_module as _import_module

import scopes as _scopes

if not hasattr(_scopes, "DisposeScope"):
    raise ImportError(
        f"{_scopes.__file__} has the name of the package `scopes` of disposescope, and Python finds it "
        "instead: rename it, or move it into a package",
        name="scopes",
    )

# Re-exported explicitly for type checkers: users write `tensor.autograd.grad` after `import tensor`.
from scopes import __version__ as __version__
from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from scopes._shared.on_demand import public_names as _public_names
from tensor import autograd as autograd
from tensor import memory as memory
from tensor._devices import Device
from tensor._dtypes import bool_ as bool
from tensor._dtypes import (
    can_cast,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensor._errors import InvalidArgumentError, TensorDisposedError
from tensor._tensor import Tensor
from tensor.core.tensor import Handle
from tensor.creation.from_data import (
    asarray,
    empty,
    empty_like,
    from_numpy,
    from_slice,
    full,
    full_like,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from tensor.kernels.running import get_num_threads, set_num_threads
from tensor.memory import OutOfMemoryError
from tensor.ops.casts import astype
from tensor.ops.elementwise import *  # noqa: F403 -- what its `__all__` lists
from tensor.ops.expanding import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_tensors,
    broadcast_to,
    repeat,
    tile,
)
from tensor.ops.joining import cat, concat, meshgrid, stack, unstack
from tensor.ops.linalg import cross, matmul, outer, tensordot, trace, vecdot
from tensor.ops.moving import flip, imag, real, roll, tril, triu
from tensor.ops.reductions import all, any, argmax, argmin, count_nonzero, max, mean, min, prod, std, sum, var
from tensor.ops.scans import (
    cumulative_prod,
    cumulative_sum,
    diff,
    log_softmax,
    logsumexp,
    softmax,
    vector_norm,
)
from tensor.ops.selecting import argwhere, nonzero, take, take_along_axis
from tensor.ops.shapes import expand_dims, matrix_transpose, moveaxis, permute_dims, reshape, squeeze
from tensor.ops.sorting import argsort, searchsorted, sort
from tensor.tape.modes import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tensor.tape.modes import is_recording as is_grad_enabled

# Loaded on first use, because most programs need none of these.
_ON_DEMAND = _origins_of(
    {
        "tensor._bfloat16": "bfloat16",
        "tensor._numeric_limits": "finfo iinfo",
        "tensor.creation.external_memory": "from_address from_blob",
        "tensor.creation.generators": "Generator manual_seed",
        "tensor.creation.random": "rand rand_like randn randn_like",
        "tensor.creation.ranges": "arange eye linspace",
        "tensor.creation.sampling": "bernoulli multinomial normal randint randperm",
        "tensor.io.checkpoints": "load save",
        "tensor.io.dlpack": "from_dlpack",
        "tensor.io.files": "load_file save_file",
        "tensor.io.npy": "load_npy load_npz save_npy save_npz",
        "tensor.io.printing": "get_printoptions set_printoptions",
        "tensor.io.safetensors": "SafetensorsError",
        "tensor.io.standard": (
            "NamespaceInfo __array_api_version__ __array_namespace_info__ e inf nan newaxis pi"
        ),
        "tensor.io.unpickling": "CheckpointError",
        "tensor.ops.activations": "elu gelu leaky_relu silu softplus",
        "tensor.ops.distinct": "isin unique_all unique_counts unique_inverse unique_values",
        "tensor.ops.einsum": "einsum",
    }
) | {name: f"tensor.{name}" for name in ("fft", "linalg")}

__all__ = [  # the standard's two names are loaded on demand too
    *_public_names(globals(), _ON_DEMAND),
    "__array_api_version__",  # noqa: F405
    "__array_namespace_info__",  # noqa: F405
]

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])

__getattr__, __dir__ = _names_on_demand(
    globals(),
    _ON_DEMAND,
    prepare=_clear_errors_of,
    advice=lambda name: _import_module("tensor._advice").name_advice(name, Tensor),
)
