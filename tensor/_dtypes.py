"""Dtypes, and the default dtypes of Python types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scopes._shared.extras import how_to_install
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

# The kinds of floating dtypes, and of floating and complex dtypes. In NumPy, bfloat16 of ml_dtypes has kind
# "V", and tensors support no other dtype of that kind.
FLOATING = "fV"
INEXACT = "fcV"
# The kinds of dtypes, numbered in the order of promotion.
_RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}

SUPPORTED = {
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
# Python's float has double precision, but float32 is the usual dtype of models, and PyTorch's default.
_OF_PYTHON_TYPE: dict[Any, Dtype] = {bool: bool_, int: int64, float: float32, complex: complex64}

# Supported dtypes by dtype, name, NumPy type and Python type. A lookup takes half the time of np.dtype().
KNOWN: dict[object, Dtype] = {
    **_OF_PYTHON_TYPE,
    **{name: dtype for dtype in SUPPORTED for name in (dtype, dtype.name, dtype.type)},
}


def as_dtype(dtype: DtypeLike) -> Dtype:
    """Return the supported dtype for `dtype`: a dtype, a name, a NumPy type or a Python type."""
    known = KNOWN.get(dtype)
    if known is not None:
        return known
    if dtype == "bfloat16" or isinstance(dtype, MissingDtype):
        return load_bfloat16()
    try:
        found: Dtype = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{shown(dtype)} is not a dtype: write tensor.float32, 'float32' or float") from None
    return require_supported(found)


def require_supported(dtype: Dtype) -> Dtype:
    """Return `dtype` in native byte order. Raise a ``TypeError`` if tensors do not support it.

    Return the same object for equal dtypes, so that most comparisons only need ``is``.
    """
    native = SUPPORTED.get(dtype)
    if native is None and dtype.name == "bfloat16":
        native = load_bfloat16()
    if native is None:
        native = SUPPORTED.get(dtype.newbyteorder("="))
    if native is None:
        raise TypeError(
            f"tensors do not support {dtype}: they support bool, integers, float16/32/64, bfloat16 and "
            "complex64/128. Convert the data first, for example with numpy.asarray(data, dtype='float32')"
        )
    return native


NO_ML_DTYPES = (
    f"tensor.bfloat16 needs ml_dtypes, which is not installed: {how_to_install('bfloat16')}. "
    "float16 takes the same memory, without ml_dtypes"
)


class MissingDtype:
    """``tensor.bfloat16`` if ml_dtypes is not installed. It is equal to no dtype; using it is an error."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "bfloat16"


def load_bfloat16() -> Dtype:
    """Return the dtype bfloat16 of ml_dtypes, and register it as supported.

    Raises
    ------
    ImportError
        If ml_dtypes is not installed.
    """
    known = KNOWN.get("bfloat16")
    if known is None:
        try:
            import ml_dtypes  # an optional dependency
        except ImportError:
            raise ImportError(NO_ML_DTYPES, name="ml_dtypes") from None
        known = np.dtype(ml_dtypes.bfloat16)
        SUPPORTED[known] = KNOWN[known] = KNOWN[known.type] = KNOWN["bfloat16"] = known
    return known


def find_bfloat16() -> Dtype | None:
    """Return the dtype bfloat16, or None if ml_dtypes is not installed."""
    try:
        return load_bfloat16()
    except ImportError:
        return None


def is_bfloat16(dtype: Dtype) -> bool:
    """Return whether the dtype of a tensor is bfloat16."""
    return dtype.kind == "V"


def is_floating(dtype: Dtype) -> bool:
    """Return whether `dtype` is floating."""
    return dtype.kind in FLOATING


def is_inexact(dtype: Dtype) -> bool:
    """Return whether `dtype` is floating or complex, so that it supports gradients."""
    return dtype.kind in INEXACT


def fits(dtype: Dtype, target: Dtype) -> bool:
    """Return whether an op may write a result of `dtype` to a tensor of dtype `target`, as in PyTorch.

    It may not if `target` is of a lower kind. The kinds are, in order, bool, integer, floating and complex.
    Widths and signs have no effect.
    """
    return dtype.kind in _RANKS and _RANKS[dtype.kind] <= _RANKS[target.kind]


def result_type(*arrays_and_dtypes: object) -> Dtype:
    """Return the result dtype of an op on these tensors, dtypes and Python numbers.

    Within a kind, the array API standard applies: int8 with int16 is int16, float64 with complex64 is
    complex128. Between kinds, the dtype of the higher kind wins: float32 with int64 is float32. Python
    numbers have no width. If their kind is higher than all others, the result is the default dtype of that
    kind, but float64 with a complex number is complex128. uint64 with a signed integer dtype is float32,
    because no integer dtype can hold both.

    Examples
    --------
    >>> import tensor
    >>> tensor.result_type(tensor.int8, tensor.ones((1,)), 2)
    dtype('float32')
    >>> tensor.result_type(tensor.int64, 2.5)
    dtype('float32')
    """
    if not arrays_and_dtypes:
        raise TypeError("result_type() takes at least one tensor, dtype or number")
    return result_dtype([type(x) if type(x) in _OF_PYTHON_TYPE else dtype_of(x) for x in arrays_and_dtypes])


def result_dtype(kinds: Sequence[Dtype | type]) -> Dtype:
    """Return the result dtype of an op on operands with these dtypes, and Python numbers of these types."""
    key = tuple(kinds)
    found = _RESULTS.get(key)
    if found is None:
        found = _RESULTS[key] = _result_dtype(key)
    return found


_RESULTS: dict[tuple[Dtype | type, ...], Dtype] = {}
_ORDER = "biufc"


def _result_dtype(kinds: tuple[Dtype | type, ...]) -> Dtype:
    dtypes = [kind for kind in kinds if isinstance(kind, np.dtype)]
    numbers = [_OF_PYTHON_TYPE[kind] for kind in kinds if not isinstance(kind, np.dtype)]
    inexact = [dtype for dtype in dtypes if is_inexact(dtype)]
    if not dtypes:
        found = np.result_type(*numbers)
    elif inexact:
        found = _common(inexact)
        if found.kind in FLOATING and any(dtype.kind == "c" for dtype in numbers):
            found = np.result_type(float32 if is_bfloat16(found) else found, 1j)
    else:
        found = np.result_type(*dtypes)
        if found.kind == "f":  # for uint64 with signed integers
            found = float32
        highest = max(numbers, key=lambda dtype: _ORDER.index(dtype.kind), default=found)
        if is_inexact(highest) or found.kind == "b":
            # complex64 can represent all values of float32.
            found = np.result_type(found if is_inexact(found) else highest, highest)
    return require_supported(found)


def _common(inexact: list[Dtype]) -> Dtype:
    """Return the common floating or complex dtype. With a different dtype, bfloat16 counts as float32."""
    if len(set(inexact)) == 1:
        return inexact[0]
    return np.result_type(*[float32 if is_bfloat16(dtype) else dtype for dtype in inexact])


def can_cast(from_: object, to: DtypeLike, /) -> bool:
    """Return whether a cast from a dtype, or from a tensor's dtype, to `to` is safe.

    Examples
    --------
    >>> import tensor
    >>> tensor.can_cast("int8", "int16"), tensor.can_cast("float32", "int64")
    (True, False)
    """
    return bool(np.can_cast(dtype_of(from_), as_dtype(to), "safe"))


KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": FLOATING,
    "complex floating": "c",
    "numeric": "iu" + INEXACT,
}


def isdtype(dtype: DtypeLike, kind: DtypeLike | tuple[DtypeLike, ...]) -> bool:
    """Return whether `dtype` has a kind: a dtype, a name such as ``"integral"``, or a tuple of these.

    Examples
    --------
    >>> import tensor
    >>> tensor.isdtype(tensor.float32, "real floating")
    True
    """
    found = as_dtype(dtype)
    for one in kind if isinstance(kind, tuple) else (kind,):
        letters = KINDS.get(one) if isinstance(one, str) else None
        if found.kind in letters if letters is not None else found == as_dtype(one):
            return True
    return False


def dtype_of(x: object) -> Dtype:
    found = getattr(x, "dtype", None)
    return require_supported(found) if isinstance(found, np.dtype) else as_dtype(x)  # type: ignore[arg-type]  # raises for others
