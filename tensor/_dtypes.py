"""The element types, and what Python's own types become."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tensor._errors import shown

Dtype = np.dtype[np.generic]
DtypeLike = str | type | Dtype
Array = np.ndarray[Any, np.dtype[Any]]

bool_: Dtype = np.dtype(np.bool_)
int8: Dtype = np.dtype(np.int8)
int16: Dtype = np.dtype(np.int16)
int32: Dtype = np.dtype(np.int32)
int64: Dtype = np.dtype(np.int64)
uint8: Dtype = np.dtype(np.uint8)
uint16: Dtype = np.dtype(np.uint16)
uint32: Dtype = np.dtype(np.uint32)
uint64: Dtype = np.dtype(np.uint64)
float16: Dtype = np.dtype(np.float16)
float32: Dtype = np.dtype(np.float32)
float64: Dtype = np.dtype(np.float64)
complex64: Dtype = np.dtype(np.complex64)
complex128: Dtype = np.dtype(np.complex128)

_SUPPORTED = {
    dtype: dtype
    for dtype in (
        bool_,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        float16,
        float32,
        float64,
        complex64,
        complex128,
    )
}
# Python's float is a double, but float32 is what models are made of (PyTorch's default too).
_OF_PYTHON_TYPE: dict[object, Dtype] = {bool: bool_, int: int64, float: float32, complex: complex64}

# All that names a dtype in short: to ask NumPy takes twice as long.
KNOWN: dict[object, Dtype] = {
    **_OF_PYTHON_TYPE,
    **{name: dtype for dtype in _SUPPORTED for name in (dtype, dtype.name, dtype.type)},
}


def as_dtype(dtype: DtypeLike) -> Dtype:
    """Return the supported dtype that `dtype` names: a dtype, a name, NumPy's or Python's own type."""
    known = KNOWN.get(dtype)
    if known is not None:
        return known
    try:
        found: Dtype = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{shown(dtype)} is no dtype: write tensor.float32, 'float32' or float") from None
    return require_supported(found)


def require_supported(dtype: Dtype) -> Dtype:
    """Return `dtype` in native byte order, or raise a ``TypeError`` for what tensors can't hold.

    Equal dtypes are one object here: most of those who compare them need no more than ``is``.
    """
    native = _SUPPORTED.get(dtype)
    if native is None:
        native = _SUPPORTED.get(dtype.newbyteorder("="))
    if native is None:
        raise TypeError(
            f"tensors can't hold {dtype}: they hold bool, integers, float16/32/64 and complex64/128. "
            "Convert the data first, for example with numpy.asarray(data, dtype='float32')"
        )
    return native


def is_inexact(dtype: Dtype) -> bool:
    """Tell whether `dtype` is floating or complex: what can require gradients."""
    return dtype.kind in "fc"


class FloatLimits(NamedTuple):
    """What a floating dtype can hold; for a complex one, each of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype

    @property
    def tiny(self) -> float:
        """The smallest normal number, by PyTorch's name."""
        return self.smallest_normal


class IntegerLimits(NamedTuple):
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: Dtype


def finfo(type: object, /) -> FloatLimits:
    """Return the limits of a floating or complex dtype, or of a tensor's.

    Examples
    --------
    >>> import tensor
    >>> tensor.finfo(tensor.float32).eps
    1.1920928955078125e-07
    """
    dtype = _dtype_of(type)
    if dtype.kind not in "fc":
        raise TypeError(f"finfo() is about floating dtypes, not {dtype}: use iinfo()")
    info = np.finfo(dtype)  # type: ignore[type-var]  # floating, by the line before
    values = (float(info.eps), float(info.max), float(info.min), float(info.smallest_normal))
    return FloatLimits(info.bits, *values, np.dtype(info.dtype))


def iinfo(type: object, /) -> IntegerLimits:
    """Return the limits of an integer dtype, or of a tensor's.

    Examples
    --------
    >>> import tensor
    >>> tensor.iinfo(tensor.int8).max
    127
    """
    dtype = _dtype_of(type)
    if dtype.kind not in "iu":
        raise TypeError(f"iinfo() is about integer dtypes, not {dtype}: use finfo()")
    info = np.iinfo(dtype)  # type: ignore[type-var]  # integer, by the line before
    return IntegerLimits(info.bits, int(info.max), int(info.min), dtype)


def result_type(*arrays_and_dtypes: object) -> Dtype:
    """Return the dtype of an operation on these tensors, dtypes and Python numbers.

    Examples
    --------
    >>> import tensor
    >>> tensor.result_type(tensor.int8, tensor.ones((1,)), 2)
    dtype('float32')
    """
    if not arrays_and_dtypes:
        raise TypeError("result_type() takes at least one tensor, dtype or number")
    operands = [x if type(x) in _OF_PYTHON_TYPE else _dtype_of(x) for x in arrays_and_dtypes]
    if len(operands) == 1 or all(type(x) in _OF_PYTHON_TYPE for x in operands):
        operands = [_OF_PYTHON_TYPE.get(type(x), x) for x in operands]
    return require_supported(np.result_type(*operands))  # type: ignore[arg-type]  # dtypes and numbers


def can_cast(from_: object, to: DtypeLike, /) -> bool:
    """Tell whether values of a dtype, or of a tensor's, keep their meaning as `to`.

    Examples
    --------
    >>> import tensor
    >>> tensor.can_cast("int8", "int16"), tensor.can_cast("float32", "int64")
    (True, False)
    """
    return bool(np.can_cast(_dtype_of(from_), as_dtype(to), "safe"))


_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: DtypeLike, kind: DtypeLike | tuple[DtypeLike, ...]) -> bool:
    """Tell whether `dtype` is of a kind: a dtype, or a name such as ``"integral"``, or one of several.

    Examples
    --------
    >>> import tensor
    >>> tensor.isdtype(tensor.float32, "real floating")
    True
    """
    found = as_dtype(dtype)
    for one in kind if isinstance(kind, tuple) else (kind,):
        letters = _KINDS.get(one) if isinstance(one, str) else None
        if found.kind in letters if letters is not None else found == as_dtype(one):
            return True
    return False


def _dtype_of(x: object) -> Dtype:
    found = getattr(x, "dtype", None)
    return require_supported(found) if isinstance(found, np.dtype) else as_dtype(x)  # type: ignore[arg-type]  # raises for others
