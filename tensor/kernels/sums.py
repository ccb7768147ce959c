"""Sums of many floats as products with ones: BLAS adds up several at a time, and on several threads.

NumPy adds up floats by halves, the last 128 of them in 8 chains: for n of them its error is at most
log2(n) + 12 roundings. The products here are so short that theirs is no larger. A sum that is not finite is
left to NumPy, which has warnings for it.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels.split_reductions import reduce_large
from tensor.memory.allocator import empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._dtypes import Array

_add_reduce: Callable[..., Any] = np.add.reduce
# Bytes from which on products are quicker, by dtype: 1,000 x 1,000 float32 take 118 us instead of 214 (by
# rows) and 76 instead of 188, 64 x 1,000 take 22 instead of 18.
_LEAST = {"f": 1 << 19, "d": 1 << 22}
# NumPy goes through short rows one by one: 1,000 of 10 take 16 us instead of 26.
_SHORT = 32
_LEAST_SHORT = 1 << 15


def add_up(array: Array, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Return ``np.add.reduce(array, axis, dtype, None, keepdims)``, but for the last bits."""
    if array.nbytes < _LEAST_SHORT:
        return _add_reduce(array, axis, dtype, None, keepdims)
    if dtype is None or dtype == array.dtype:
        least = _LEAST.get(array.dtype.char)
        is_short = array.ndim > 1 and array.shape[-1] <= _SHORT
        if least is not None and (is_short or array.nbytes >= least) and array.flags.c_contiguous:
            sums = _by_products(array, axis, array.nbytes < least)
            if sums is not None and np.isfinite(sums).all():
                shape = array.shape
                axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
                left = [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
                return sums.reshape(left)
    return reduce_large(np.add, array, axis, dtype, keepdims)


def _by_products(array: Array, axis: Any, is_small: bool) -> Array | None:
    """Return the sums over the first or the last dimensions, flat; None for others, and what is too small."""
    shape = array.shape
    ndim = len(shape)
    axes = list(range(ndim)) if axis is None else sorted(axis) if isinstance(axis, tuple) else [axis]
    count = len(axes)
    if count == ndim:
        return None if is_small else _total(array.reshape(-1))
    if axes == list(range(ndim - count, ndim)):
        n = prod(shape[ndim - count :])
        return None if is_small and n > _SHORT else _of_rows(array.reshape(-1, n))
    if count and axes == list(range(count)):
        n = prod(shape[:count])
        return None if is_small and array.size > n * _SHORT else _of_columns(array.reshape(n, -1))
    return None


def _longest(dtype: np.dtype[Any]) -> int:
    """Return how many elements one product adds up, at most: BLAS does so in chains of 8."""
    return 256 // dtype.itemsize


def _total(flat: Array) -> Array:
    n = _longest(flat.dtype)
    ones = _ones(n, flat.dtype)
    while flat.size > n:
        count = flat.size // n
        parts = empty((count + 1,), flat.dtype)
        np.dot(flat[: count * n].reshape(count, n), ones, parts[:count])
        parts[count] = np.add.reduce(flat[count * n :])
        flat = parts
    return _dot(flat.reshape(1, -1))


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


def _of_columns(rows: Array) -> Array:
    """Return the sum of each column.

    NumPy adds row after row, as BLAS does, with less to fetch: 1,000 x 1,000 take 60 us instead of 94,
    100,000 x 10 take 500 instead of 2,100.
    """
    n, columns = rows.shape
    if n <= 4096:
        ones = _ones(n, rows.dtype)
    else:
        ones = empty((n,), rows.dtype)
        ones.fill(1)
    out = empty((columns,), rows.dtype)
    np.dot(ones, rows, out)
    return out


@lru_cache(maxsize=64)
def _part_of(n: int, longest: int) -> int | None:
    """Return the largest divisor of `n` up to `longest`; None where it is less than a quarter of that."""
    return next((i for i in range(longest, longest // 4 - 1, -1) if n % i == 0), None)


@lru_cache(maxsize=256)
def _ones(n: int, dtype: np.dtype[Any]) -> Array:
    return np.ones(n, dtype)
