"""Convert users' data to arrays and tensors of a supported dtype. Errors give the index of a wrong value."""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import (
    INEXACT,
    Array,
    Dtype,
    DtypeLike,
    as_dtype,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
    is_bfloat16,
    require_supported,
    uint64,
)
from tensor._errors import InvalidArgumentError, shown
from tensor.core.promotion import narrow, widen
from tensor.core.tensor import TensorCore, wrap
from tensor.memory.allocator import is_worth_pooling
from tensor.memory.buffer import array_of, copy

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_NUMBERS = (bool, int, float, complex)
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_NUMBERS_AND_LISTS = (*_NUMBERS, list, tuple)
_LISTS = frozenset({list, tuple})
# An array that is created from data of these types never shares memory with it.
_NEVER_SHARED = frozenset({bool, int, float, complex, list})
_ARRAYS = (np.ndarray, np.generic)
# The dtypes of Python numbers.
_OF_NUMBERS: dict[type, Dtype] = {bool: bool_, int: int64, float: float32, complex: complex64}
# The default dtypes of tensors that replace NumPy's for Python numbers.
_DEFAULTS = {float64: float32, complex128: complex64}
# A context in which NumPy does not warn about numbers out of range. To run in a copy of it takes 0.3 us,
# instead of 1.6 for `np.errstate`.
_silence = Context()
_silence.run(np.seterr, invalid="ignore", over="ignore")
_in_silence = _silence.copy
# Numbers up to this size fit all floating dtypes.
_MAX_FLOAT16 = 65504


def as_data(data: object, dtype: DtypeLike | None) -> Array:
    """Return `data` as an array of a supported dtype; it may share the memory of `data`."""
    wanted = None if dtype is None else as_dtype(dtype)
    kind = type(data)
    if kind in _NUMBERS:
        simple = dtype_for_number(data, wanted)
        if simple is not None:
            return np.array(data, simple)
    elif kind not in _LISTS:
        if isinstance(data, TensorCore):
            data._raise_if_disposed()
            data = data._array
        if isinstance(data, _ARRAYS):
            found = require_supported(data.dtype)
            return cast(np.asarray(data, found), found if wanted is None else wanted)
        if not isinstance(data, _NUMBERS_AND_LISTS):
            data = _converted(data)
            if isinstance(data, np.ndarray):
                return as_data(data, wanted)
    array = _read(data)
    found = array.dtype
    if wanted is None:
        if found not in _DEFAULTS or not _is_of_numbers(data):
            return array
        return array.astype(_DEFAULTS[found])
    if found.kind in "iu" and wanted.kind in "iu":
        fitted = array.astype(wanted)
        if not np.count_nonzero(fitted != array):
            return fitted
    _require_fit(array, wanted)
    if wanted == uint64 and found == float64 and array.size and array.max() >= 2**63:
        # NumPy reads a list of integers below and above 2**63 as float64, which rounds them.
        return _in_silence().run(np.array, _plain_lists(data), wanted)
    return cast(array, wanted)


def new_array(data: object, dtype: DtypeLike | None) -> Array:
    """Return a new array with a copy of `data`."""
    array = as_data(data, dtype)
    # Copy an array that may share the memory of `data`. Also copy a large one, so that its memory is pooled.
    if type(data) not in _NEVER_SHARED or is_worth_pooling(array.nbytes):
        array = copy(array)
    return array


def as_tensor(x: object) -> Tensor:
    """Return `x` itself if it is a tensor, else a new tensor with its data."""
    if isinstance(x, TensorCore):
        return x  # type: ignore[return-value]  # every instance is a Tensor
    array = new_array(x, None)
    return wrap(array)


def dtype_for_number(number: Any, wanted: Dtype | None) -> Dtype | None:
    """Return the dtype for an array of the Python number `number`, or None if it needs further checks.

    This is a shortcut: the general code for lists takes three times as long.
    """
    kind = type(number)
    if wanted is None:
        if kind is int and not _MIN_INT64 <= number <= _MAX_INT64:
            return None
        return _OF_NUMBERS.get(kind)
    if kind is bool:
        return wanted
    if kind is int and 0 <= number <= 127:  # all dtypes can represent it
        return wanted
    if (kind is int or kind is float) and wanted.kind in INEXACT and -_MAX_FLOAT16 <= number <= _MAX_FLOAT16:
        return wanted
    return None


def cast(array: Array, dtype: Dtype) -> Array:
    """Return `array` as `dtype`, or itself if it has that dtype. A real dtype drops imaginary parts."""
    if array.dtype == dtype:
        return array
    if is_bfloat16(array.dtype):
        return cast(widen(array), dtype)
    if is_bfloat16(dtype):
        return narrow(cast(array, float32), dtype)
    kind = array.dtype.kind
    if kind in "biu" and dtype != float16:
        return array.astype(dtype)
    kept = array.real if kind == "c" and dtype.kind not in "cb" else array
    # A number out of range becomes infinite as a float. As an integer its value depends on the machine, as in
    # PyTorch.
    return _in_silence().run(kept.astype, dtype)


def _converted(data: object) -> object:
    """Return an object that is not a number, list or array as an array, or as a list of its items."""
    if isinstance(data, (str, dict, set, frozenset)):
        raise TypeError(
            f"a tensor's data must be a number, nested lists of numbers, or an array, not {_called(data)}"
        )
    if hasattr(data, "__array__") or isinstance(data, (bytes, bytearray, memoryview)):
        buffer = memoryview(data) if isinstance(data, (bytes, bytearray)) else data
        try:
            return np.asarray(buffer)
        except TypeError:
            # PyTorch can't convert bfloat16 tensors to arrays, but exports their memory by DLPack.
            if not hasattr(data, "__dlpack__"):
                raise
            return array_of(data)
    if hasattr(data, "__iter__"):
        return list(data)
    try:
        return np.asarray(memoryview(data))  # type: ignore[arg-type]  # raises TypeError without a buffer
    except TypeError:
        raise TypeError(
            f"a tensor's data must be a number, nested lists of numbers, or an array, not {_called(data)}"
        ) from None


_KINDS = "biu" + INEXACT
# NumPy's limit of dimensions.
_DEEPEST = 64


def _read(data: object) -> Array:
    _require_shallow(data)
    try:
        array: Array = np.array(data)
    except (TypeError, ValueError, RuntimeError):  # ragged, or with a tensor that NumPy can't convert
        _require_regular(data, "data")
        array = np.array(_plain_lists(data))
    if array.dtype.kind not in _KINDS:
        _require_regular(data, "data")
        array = np.array(_plain_lists(data))
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"no dtype can represent all items of data (NumPy's result is {array.dtype})")
    require_supported(array.dtype)
    return array


def _require_shallow(data: object) -> None:
    """Raise an error if nested lists have more levels than an array can have dimensions."""
    for _ in range(_DEEPEST):
        if not isinstance(data, (list, tuple)) or not data:
            return
        data = data[0]
    if isinstance(data, (list, tuple)):
        raise InvalidArgumentError(TOO_DEEP)


TOO_DEEP = (
    f"the nested lists are deeper than {_DEEPEST} dimensions, or a list contains itself: give nested lists "
    "of numbers"
)


def _plain_lists(data: object) -> object:
    if isinstance(data, TensorCore):
        return data._array
    if isinstance(data, (list, tuple)):
        return [_plain_lists(item) for item in data]
    return data


def _require_regular(data: object, path: str, depth: int = 0) -> tuple[int, ...]:
    """Return the shape of nested lists, or raise an error that names the wrong item."""
    if isinstance(data, TensorCore):
        data._raise_if_disposed()
        return () if data._array is None else data._array.shape
    if isinstance(data, _ARRAYS):
        require_supported(data.dtype)
        return data.shape
    if isinstance(data, int) and not -(2**63) <= data < 2**64:
        raise InvalidArgumentError(
            f"{path} is {data}, which does not fit any integer dtype: pass it as a float"
        )
    if isinstance(data, _NUMBERS):
        return ()
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"{path} is {_called(data)}, not a number: tensors hold numbers and booleans only")
    if depth == _DEEPEST:
        raise InvalidArgumentError(TOO_DEEP)
    shapes = [_require_regular(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(data)]
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise InvalidArgumentError(
                f"the nested lists are ragged: {path}[{i}] {_described(shape)}, but {path}[0] "
                f"{_described(shapes[0])}. Lists at one depth must have equal lengths: pad the shorter ones, "
                "or keep a list of tensors"
            )
    return (len(data), *(shapes[0] if shapes else ()))


def _described(shape: tuple[int, ...]) -> str:
    if len(shape) == 0:
        return "is a number"
    if len(shape) == 1:
        return f"has {shape[0]} item{'' if shape[0] == 1 else 's'}"
    return f"has shape {shape}"


def _called(data: object) -> str:
    return shown(data) if data is None or isinstance(data, str) else f"of type {type(data).__name__}"


def _require_fit(array: Array, dtype: Dtype) -> None:
    """Raise an error if `dtype` can't represent Python numbers. Fractions are truncated, as in PyTorch."""
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"complex data does not fit {dtype}: pass dtype=tensor.complex64, or the real parts")
    if dtype.kind not in "iu" or array.dtype.kind == "b" or array.size == 0:
        return
    limits = np.iinfo(dtype)  # type: ignore[type-var]  # an integer dtype, see above
    low, high = array.min(), array.max()
    if not (low >= limits.min and high <= limits.max):
        worst = low if not low >= limits.min else high
        raise InvalidArgumentError(
            f"{worst} does not fit {dtype}, which holds {limits.min} to {limits.max}: choose another dtype"
        )


def _is_of_numbers(data: object) -> bool:
    """Return whether the first number in `data` is a Python number. Arrays and tensors keep their dtype."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return not isinstance(data, (*_ARRAYS, TensorCore))
