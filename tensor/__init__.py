"""Tensors on NumPy with deterministic lifetimes and autograd."""

from tensor._casts import astype
from tensor._core import Handle
from tensor._creation import from_numpy, full, ones, tensor, zeros
from tensor._dtypes import bool_ as bool
from tensor._dtypes import (
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensor._elementwise import add, divide, exp, multiply, subtract
from tensor._errors import TensorDisposedError
from tensor._expanding import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_tensors,
    broadcast_to,
    repeat,
    tile,
)
from tensor._graph import enable_grad, no_grad, set_grad_enabled
from tensor._graph import is_recording as is_grad_enabled
from tensor._joining import cat, concat, meshgrid, stack, unstack
from tensor._moving import flip, roll, tril, triu
from tensor._printing import get_printoptions, set_printoptions
from tensor._random import Generator, manual_seed, rand, randn
from tensor._shapes import expand_dims, matrix_transpose, moveaxis, permute_dims, reshape, squeeze
from tensor._tensor import Tensor

__all__ = [
    "Generator",
    "Handle",
    "Tensor",
    "TensorDisposedError",
    "add",
    "astype",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "cat",
    "complex64",
    "complex128",
    "concat",
    "divide",
    "enable_grad",
    "exp",
    "expand_dims",
    "flip",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "get_printoptions",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "manual_seed",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "multiply",
    "no_grad",
    "ones",
    "permute_dims",
    "rand",
    "randn",
    "repeat",
    "reshape",
    "roll",
    "set_grad_enabled",
    "set_printoptions",
    "squeeze",
    "stack",
    "subtract",
    "tensor",
    "tile",
    "tril",
    "triu",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unstack",
    "zeros",
]
