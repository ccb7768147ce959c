"""The numeric limits of dtypes: `finfo` and `iinfo`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensor._dtypes import INEXACT, Dtype, dtype_of, is_bfloat16


class FloatLimits(NamedTuple):
    """The limits of a floating dtype. For a complex dtype: of its real and imaginary parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype

    @property
    def tiny(self) -> float:
        """The same as `smallest_normal`, for PyTorch programs."""
        return self.smallest_normal


class IntegerLimits(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Dtype


def finfo(type: object, /) -> FloatLimits:
    """Return the limits of a floating or complex dtype, or of the dtype of a tensor.

    Examples
    --------
    >>> import tensor
    >>> tensor.finfo(tensor.float32).eps
    1.1920928955078125e-07
    """
    dtype = dtype_of(type)
    if dtype.kind not in INEXACT:
        cure = ": use iinfo()" if dtype.kind in "iu" else ""
        raise TypeError(f"finfo() takes a floating or complex dtype, not {dtype}{cure}")
    if is_bfloat16(dtype):
        import ml_dtypes  # installed, because it defines this dtype

        info16 = ml_dtypes.finfo(dtype)
        limits = (float(info16.eps), float(info16.max), float(info16.min), float(info16.smallest_normal))
        return FloatLimits(16, *limits, dtype)
    info = np.finfo(dtype)  # type: ignore[type-var]  # floating, see above
    values = (float(info.eps), float(info.max), float(info.min), float(info.smallest_normal))
    return FloatLimits(info.bits, *values, np.dtype(info.dtype))


def iinfo(type: object, /) -> IntegerLimits:
    """Return the limits of an integer dtype, or of the dtype of a tensor.

    Examples
    --------
    >>> import tensor
    >>> tensor.iinfo(tensor.int8).max
    127
    """
    dtype = dtype_of(type)
    if dtype.kind not in "iu":
        cure = ": use finfo()" if dtype.kind in INEXACT else ""
        raise TypeError(f"iinfo() takes an integer dtype, not {dtype}{cure}")
    info = np.iinfo(dtype)  # type: ignore[type-var]  # integer, see above
    return IntegerLimits(info.bits, int(info.max), int(info.min), dtype)
