"""Elementwise choice between values by a condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor._dtypes import Array
from tensor.kernels.elementwise import choose, keep_nonzero, keep_true

# From this number of elements on, the compiled kernel is faster.
_FEW = 1 << 12


def where(condition: Any, x1: Any, x2: Any) -> Any:
    """Return `x1` where `condition` is true, else `x2`."""
    size = max(getattr(x, "size", 1) for x in (condition, x1, x2))
    if type(condition) is not np.ndarray or size < _FEW or condition.dtype.kind != "b":
        return np.where(condition, x1, x2)
    dtype = np.result_type(x1, x2)
    found = choose(condition, np.asarray(x1, dtype), np.asarray(x2, dtype))
    return np.where(condition, x1, x2) if found is None else found


# The dtypes that `tensor.kernels.elementwise` supports.
_FLOATING = "efdFD"


def keep_where(x: Any, mask: Any) -> Any:
    """Return `x` where `mask` is true, else 0, even if `x` is infinite or nan there."""
    if type(x) is np.ndarray and type(mask) is np.ndarray and x.dtype.char in _FLOATING:
        found = choose(mask, x, np.zeros((), x.dtype)) if x.size >= _FEW else None
        return np.asarray(keep_true(x, mask)) if found is None else found
    return where(mask, x, 0)


def where_nonzero(x: Any, by: Any) -> Any:
    """Return ``keep_where(x, by != 0)``, in one pass."""
    return np.asarray(keep_nonzero(x, by)) if x.dtype == by.dtype else keep_where(x, by != 0)


def overwrite_where_nonzero(x: Array, by: Any) -> Any:
    """Return the result of `where_nonzero`, in the memory of `x` if the dtypes are equal."""
    return np.asarray(keep_nonzero(x, by, out=x)) if x.dtype == by.dtype else keep_where(x, by != 0)
