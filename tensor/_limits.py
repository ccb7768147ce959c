"""What the element types can hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensor._dtypes import INEXACT, Dtype, dtype_of, is_bfloat16


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
    dtype = dtype_of(type)
    if dtype.kind not in INEXACT:
        raise TypeError(f"finfo() is about floating dtypes, not {dtype}: use iinfo()")
    if is_bfloat16(dtype):
        import ml_dtypes  # installed, where there is such a dtype

        narrow = ml_dtypes.finfo(dtype)
        limits = (float(narrow.eps), float(narrow.max), float(narrow.min), float(narrow.smallest_normal))
        return FloatLimits(16, *limits, dtype)
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
    dtype = dtype_of(type)
    if dtype.kind not in "iu":
        raise TypeError(f"iinfo() is about integer dtypes, not {dtype}: use finfo()")
    info = np.iinfo(dtype)  # type: ignore[type-var]  # integer, by the line before
    return IntegerLimits(info.bits, int(info.max), int(info.min), dtype)
