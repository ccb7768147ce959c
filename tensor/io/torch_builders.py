"""The functions that pickles of ``torch.save`` call to build tensors and plain data."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tensor import _dtypes as dtypes
from tensor._dtypes import Array, Dtype, is_inexact
from tensor._errors import shown
from tensor.core.tensor import TensorCore
from tensor.io.torch_storages import MAX_DIMENSIONS, Storage
from tensor.io.unpickling import Builder, CheckpointError, keys_of
from tensor.tape.recording import become_leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
DTYPES = {name: dtypes.as_dtype(name) for name in _NAMES}
# The name of the class of arrays in pickles, which refer to the class but do not call it.
NUMPY_ARRAY = "numpy.ndarray"
_NUMBER = re.compile(r"\?|b1|[iu][1248]|f[248]|c(8|16)")


def dtype_named(name: str) -> Dtype | None:
    """Return the dtype for ``torch.name`` in a file, or None."""
    if name == "bfloat16":
        return dtypes.find_bfloat16() or dtypes.float32
    return DTYPES.get(name)


def rebuild_tensor(
    storage: object,
    offset: object,
    shape: object,
    stride: object,
    requires_grad: object = False,
    *rest: object,
) -> Tensor:
    dtype = storage.kind.tensor_dtype() if isinstance(storage, Storage) else None
    if not isinstance(storage, Storage) or dtype is None:
        _fail("a tensor in it has no storage with a dtype")
    return _made(storage, dtype, offset, shape, stride, requires_grad, rest[1:])


def rebuild_tensor_of_dtype(
    storage: object,
    offset: object,
    shape: object,
    stride: object,
    requires_grad: object,
    hooks: object,  # noqa: ARG001 -- always empty in PyTorch's files
    dtype: object,
    *rest: object,
) -> Tensor:
    if not isinstance(storage, Storage) or not isinstance(dtype, np.dtype):
        _fail("a tensor in it has no storage or no dtype")
    return _made(storage, dtype, offset, shape, stride, requires_grad, rest)


def _made(
    storage: Storage,
    dtype: Any,
    offset: object,
    shape: object,
    stride: object,
    requires_grad: object,
    flags: tuple[object, ...],
) -> Tensor:
    if flags and flags[0]:
        _fail("it has a conjugate or negative view: in PyTorch, save x.resolve_conj().resolve_neg()")
    if type(offset) is not int or offset < 0:
        _fail(f"a tensor in it has an invalid offset {shown(offset)}")
    x = storage.tensor(dtype, offset, _sizes(shape), _sizes(stride))
    return rebuild_parameter(x, requires_grad)


def _sizes(given: object) -> tuple[int, ...]:
    if type(given) is not tuple or any(type(n) is not int or n < 0 for n in given):
        _fail(f"a tensor in it has an invalid shape or strides {shown(given)}")
    return given


def rebuild_parameter(x: object, requires_grad: object, *_: object) -> Tensor:
    if not isinstance(x, TensorCore) or type(requires_grad) is not bool:
        _fail("a parameter in it is not a tensor")
    if requires_grad and x._node is None:
        if x._array is None or not is_inexact(x._array.dtype):
            _fail("a tensor of integers in it requires grad")
        become_leaf(x)
    return x  # type: ignore[return-value]  # every instance is a Tensor


def _ordered_dict(pairs: object = ()) -> OrderedDict[Any, Any]:
    items: OrderedDict[Any, Any] = OrderedDict()
    for pair in pairs if isinstance(pairs, (list, tuple)) else [None]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            _fail("an OrderedDict in it is not built from pairs")
        items[keys_of(pair[:1])[0]] = pair[1]
    return items


def _device(*given: object) -> str:
    if not given or not isinstance(given[0], str):
        _fail(f"a device in it is invalid: {shown(given)}")
    return ":".join(map(str, given[:2]))


def _set(values: object = ()) -> set[Any]:
    return set(keys_of(values)) if isinstance(values, (list, tuple)) else _fail("a set in it is invalid")


def _bytes(text: object = "", encoding: object = "latin1") -> bytes:
    # Pickle protocol 2 stores bytes as a str in latin1.
    if not isinstance(text, str) or encoding != "latin1":
        _fail("bytes in it do not have PyTorch's encoding")
    return text.encode("latin1")


def _complex(real: object, imag: object) -> complex:
    if not isinstance(real, float) or not isinstance(imag, float):
        _fail("a complex number in it is invalid")
    return complex(real, imag)


def _numpy_dtype(code: object, *_: object) -> Dtype:
    if not isinstance(code, str) or not _NUMBER.fullmatch(code):
        _fail(f"it has the NumPy dtype {shown(code)}, which tensors do not support")
    return np.dtype(code).newbyteorder("<")


def _numpy_scalar(dtype: object, data: object) -> object:
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        _fail("a NumPy number in it is broken")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))[0]


def _numpy_array(kind: object, shape: object, code: object) -> Array:
    if kind != NUMPY_ARRAY or shape != (0,) or code not in (b"b", "b"):
        _fail("a NumPy array in it is broken")
    # The array's state, later in the pickle, sets all attributes.
    return np.empty(0, np.int8)


def set_array_state(x: Array, state: object) -> None:
    """Set the values of an array that `_numpy_array` created."""
    match state:
        case (1, tuple() as shape, np.dtype() as dtype, bool() as is_fortran, bytes() as data):
            pass
        case _:
            _fail("a NumPy array in it is broken")
    sizes = _sizes(shape)
    if dtype.hasobject or prod(sizes) * dtype.itemsize != len(data) or len(sizes) > MAX_DIMENSIONS:
        _fail(f"a NumPy array in it has {len(data):,} bytes, for {shown(sizes)} of {dtype}")
    x.__setstate__((1, sizes, dtype, is_fortran, data))  # type: ignore[arg-type]  # the form that pickle uses


_CALLS: dict[tuple[str, ...], Callable[..., object]] = {
    ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils._rebuild_tensor_v3",): rebuild_tensor_of_dtype,
    ("torch._utils._rebuild_parameter",): rebuild_parameter,
    ("collections.OrderedDict",): _ordered_dict,
    ("torch.Size",): _sizes,
    ("torch.device",): _device,
    ("builtins.set", "__builtin__.set"): _set,
    ("builtins.complex", "__builtin__.complex"): _complex,
    ("builtins.bytes", "__builtin__.bytes", "_codecs.encode"): _bytes,
    ("numpy.dtype",): _numpy_dtype,
    ("numpy._core.multiarray._reconstruct", "numpy.core.multiarray._reconstruct"): _numpy_array,
    ("numpy._core.multiarray.scalar", "numpy.core.multiarray.scalar"): _numpy_scalar,
}
BUILDERS = {name: Builder(function) for names, function in _CALLS.items() for name in names}


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None
