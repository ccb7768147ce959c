"""Sums of many floats as products with ones: BLAS adds up several at a time, and on several threads.

NumPy adds up floats by halves, the last 128 of them in 8 chains: for n of them its error is at most
log2(n) + 12 roundings. The products here are so short that theirs is no larger. A sum that is not finite is
left to NumPy, which has warnings for it.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._placing import reduce
from tensor._pool import empty

if TYPE_CHECKING:
    from tensor._storage import Array

# Bytes from which on products are quicker, by dtype: 1,000 x 1,000 float32 take 118 us in place of 214 (by
# rows) and 76 in place of 188, 64 x 1,000 take 22 in place of 18.
_LEAST = {"f": 1 << 19, "d": 1 << 22}
# NumPy goes through short rows one by one: 1,000 of 10 take 13 us in place of 26, 64 of 10 take 1 in place
# of 3.
_SHORT = 32
_LEAST_SHORT = 1 << 10


def add_up(array: Array, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Return ``np.add.reduce(array, axis, dtype, None, keepdims)``, but for the last bits."""
    n = array.nbytes
    if n >= _LEAST_SHORT and (dtype is None or dtype == array.dtype):
        least = _LEAST.get(array.dtype.char)
        is_short = array.ndim > 1 and array.shape[-1] <= _SHORT
        if least is not None and (n >= least or is_short) and array.flags.c_contiguous:
            found = _by_products(array, axis, keepdims, n < least)
            if found is not None:
                return found
    return reduce(np.add, array, axis, dtype, keepdims)


def _by_products(array: Array, axis: Any, keepdims: bool, is_small: bool) -> Any:
    """Return the sum over the last dimensions; None for others, and for what NumPy does as well."""
    shape = array.shape
    ndim = len(shape)
    if isinstance(axis, tuple):
        if sorted(axis) != list(range(ndim - len(axis), ndim)):
            return None
        kept = ndim - len(axis)
    elif axis is None:
        kept = 0
    elif axis != ndim - 1:
        return None
    else:
        kept = axis
    if is_small and kept != ndim - 1:
        return None
    if kept == 0:
        total = _total(array.reshape(-1))
        if not -inf < total < inf:
            return None
        return np.full((1,) * ndim, total) if keepdims else total
    left = shape[:kept]
    sums = _of_rows(array.reshape(-1, array.size // int(np.prod(left))))
    if sums is None or not sums.dot(sums) < inf:
        return None
    return sums.reshape((*left, *(1,) * (ndim - kept)) if keepdims else left)


def _longest(dtype: np.dtype[Any]) -> int:
    """Return how many elements one product adds up, at most: BLAS does so in chains of 8."""
    return 256 // dtype.itemsize


def _total(flat: Array) -> Any:
    n = _longest(flat.dtype)
    ones = _ones(n, flat.dtype)
    while flat.size > n:
        count = flat.size // n
        parts = empty((count + 1,), flat.dtype)
        np.dot(flat[: count * n].reshape(count, n), ones, parts[:count])
        parts[count] = np.add.reduce(flat[count * n :])
        flat = parts
    return flat.dot(ones[: flat.size])


def _of_rows(rows: Array) -> Array | None:
    """Return the sum of each row; None for a length that no product divides."""
    dtype = rows.dtype
    count, n = rows.shape
    while n > _longest(dtype):
        part = _part_of(n, _longest(dtype))
        if part is None:
            return None
        n //= part
        rows = _dot(rows.reshape(count * n, part)).reshape(count, n)
    return _dot(rows)


def _dot(rows: Array) -> Array:
    count, n = rows.shape
    out = empty((count,), rows.dtype)
    np.dot(rows, _ones(n, rows.dtype), out)
    return out


@lru_cache(maxsize=64)
def _part_of(n: int, longest: int) -> int | None:
    """Return the largest divisor of `n` up to `longest`; None where it is less than a quarter of that."""
    return next((i for i in range(longest, longest // 4 - 1, -1) if n % i == 0), None)


@lru_cache(maxsize=256)
def _ones(n: int, dtype: np.dtype[Any]) -> Array:
    return np.ones(n, dtype)
