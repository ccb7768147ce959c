"""Tensors on NumPy with deterministic lifetimes and autograd."""

from typing import TYPE_CHECKING

# Re-exported explicitly for type checkers: users write `tensor.autograd.grad` after `import tensor`.
from scopes import __version__ as __version__
from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand
from tensor import autograd as autograd
from tensor import memory as memory
from tensor._advice import name_advice as _name_advice
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
from tensor.creation.generators import Generator, manual_seed
from tensor.creation.random import rand, rand_like, randn, randn_like
from tensor.creation.ranges import arange, eye, linspace
from tensor.io.dlpack import from_dlpack
from tensor.io.printing import get_printoptions, set_printoptions
from tensor.io.standard import (
    NamespaceInfo,
    __array_api_version__,
    __array_namespace_info__,
    e,
    inf,
    nan,
    newaxis,
    pi,
)
from tensor.kernels.threads import get_num_threads, set_num_threads
from tensor.memory import OutOfMemoryError
from tensor.ops import elementwise as _elementwise
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
from tensor.ops.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
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

if TYPE_CHECKING:
    from tensor import fft as fft
    from tensor import linalg as linalg
    from tensor._bfloat16 import bfloat16
    from tensor._limits import finfo, iinfo
    from tensor.creation.external_memory import from_address, from_blob
    from tensor.creation.sampling import bernoulli, multinomial, normal, randint, randperm
    from tensor.io.checkpoints import load, save
    from tensor.io.files import load_file, save_file
    from tensor.io.npy import load_npy, load_npz, save_npy, save_npz
    from tensor.io.safetensors import SafetensorsError
    from tensor.io.unpickling import CheckpointError
    from tensor.ops.activations import elu, gelu, leaky_relu, silu, softplus
    from tensor.ops.distinct import isin, unique_all, unique_counts, unique_inverse, unique_values
    from tensor.ops.einsum import einsum

__all__ = [
    "CheckpointError",
    "Device",
    "Generator",
    "Handle",
    "InvalidArgumentError",
    "NamespaceInfo",
    "OutOfMemoryError",
    "SafetensorsError",
    "Tensor",
    "TensorDisposedError",
    "__array_api_version__",
    "__array_namespace_info__",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "asarray",
    "astype",
    "bernoulli",
    "bfloat16",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "can_cast",
    "cat",
    "complex64",
    "complex128",
    "concat",
    "count_nonzero",
    "cross",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "e",
    "einsum",
    "elu",
    "empty",
    "empty_like",
    "enable_grad",
    "expand_dims",
    "eye",
    "fft",
    "finfo",
    "flip",
    "float16",
    "float32",
    "float64",
    "from_address",
    "from_blob",
    "from_dlpack",
    "from_numpy",
    "from_slice",
    "full",
    "full_like",
    "gelu",
    "get_num_threads",
    "get_printoptions",
    "iinfo",
    "imag",
    "inf",
    "inference_mode",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "isdtype",
    "isin",
    "leaky_relu",
    "linalg",
    "linspace",
    "load",
    "load_file",
    "load_npy",
    "load_npz",
    "log_softmax",
    "logsumexp",
    "manual_seed",
    "matmul",
    "matrix_transpose",
    "max",
    "mean",
    "meshgrid",
    "min",
    "moveaxis",
    "multinomial",
    "nan",
    "newaxis",
    "no_grad",
    "nonzero",
    "normal",
    "ones",
    "ones_like",
    "outer",
    "permute_dims",
    "pi",
    "prod",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "real",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "save",
    "save_file",
    "save_npy",
    "save_npz",
    "searchsorted",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "silu",
    "softmax",
    "softplus",
    "sort",
    "squeeze",
    "stack",
    "std",
    "sum",
    "take",
    "take_along_axis",
    "tensor",
    "tensordot",
    "tile",
    "trace",
    "tril",
    "triu",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vecdot",
    "vector_norm",
    "zeros",
    "zeros_like",
]
__all__ += _elementwise.__all__

# Loaded on first use, because most programs need none of these.
_ON_DEMAND = {
    "CheckpointError": "tensor.io.unpickling",
    "SafetensorsError": "tensor.io.safetensors",
    "bernoulli": "tensor.creation.sampling",
    "bfloat16": "tensor._bfloat16",
    "einsum": "tensor.ops.einsum",
    "elu": "tensor.ops.activations",
    "fft": "tensor.fft",
    "finfo": "tensor._limits",
    "from_address": "tensor.creation.external_memory",
    "from_blob": "tensor.creation.external_memory",
    "gelu": "tensor.ops.activations",
    "iinfo": "tensor._limits",
    "isin": "tensor.ops.distinct",
    "leaky_relu": "tensor.ops.activations",
    "linalg": "tensor.linalg",
    "load": "tensor.io.checkpoints",
    "load_file": "tensor.io.files",
    "load_npy": "tensor.io.npy",
    "load_npz": "tensor.io.npy",
    "multinomial": "tensor.creation.sampling",
    "normal": "tensor.creation.sampling",
    "randint": "tensor.creation.sampling",
    "randperm": "tensor.creation.sampling",
    "save": "tensor.io.checkpoints",
    "save_file": "tensor.io.files",
    "save_npy": "tensor.io.npy",
    "save_npz": "tensor.io.npy",
    "silu": "tensor.ops.activations",
    "softplus": "tensor.ops.activations",
    "unique_all": "tensor.ops.distinct",
    "unique_counts": "tensor.ops.distinct",
    "unique_inverse": "tensor.ops.distinct",
    "unique_values": "tensor.ops.distinct",
}

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(
        globals(), _ON_DEMAND, prepare=_clear_errors_of, advice=lambda name: _name_advice(name, Tensor)
    )
