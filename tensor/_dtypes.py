"""The element types, and what Python's own types become."""

from __future__ import annotations

import numpy as np

Dtype = np.dtype[np.generic]
DtypeLike = str | type | Dtype

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

_SUPPORTED = frozenset(
    {
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
    }
)
# Python's float is a double, but float32 is what models are made of (PyTorch's default too).
_OF_PYTHON_TYPE: dict[object, Dtype] = {bool: bool_, int: int64, float: float32, complex: complex64}


def as_dtype(dtype: DtypeLike) -> Dtype:
    """Return the supported dtype that `dtype` names: a dtype, a name, NumPy's or Python's own type."""
    known = _OF_PYTHON_TYPE.get(dtype)
    if known is not None:
        return known
    try:
        found: Dtype = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{dtype!r} is no dtype: write tensor.float32, 'float32' or float") from None
    return require_supported(found)


def require_supported(dtype: Dtype) -> Dtype:
    """Return `dtype` in native byte order, or raise a ``TypeError`` for what tensors can't hold."""
    native = dtype.newbyteorder("=")
    if native not in _SUPPORTED:
        raise TypeError(
            f"tensors can't hold {dtype}: they hold bool, integers, float16/32/64 and complex64/128. "
            "Convert the data first, for example with numpy.asarray(data, dtype='float32')"
        )
    return native


def is_inexact(dtype: Dtype) -> bool:
    """Tell whether `dtype` is floating or complex: what can require gradients."""
    return dtype.kind in "fc"
