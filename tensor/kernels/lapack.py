"""NumPy's linear algebra for all dtypes of tensors. LAPACK does not support half precision and integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from tensor._dtypes import Array


def of_any_dtype(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return `kernel` with support for float16 (float16 results) and integers (float32 results).

    Several float16 results are returned as a plain tuple.
    """

    @wraps(kernel)
    def call(*arrays: Array, **options: Any) -> Any:
        is_half = all(array.dtype == np.float16 for array in arrays)
        found = kernel(*[_as_supported(array) for array in arrays], **options)
        if not is_half:
            return found
        return tuple(map(_as_half, found)) if isinstance(found, tuple) else _as_half(found)

    return call


def _as_supported(array: Array) -> Array:
    return array if array.dtype.char in "fdFD" else array.astype(np.float32)


def _as_half(array: Any) -> Any:
    kind = array.dtype.kind
    return array.astype(np.float16) if kind == "f" else array


def as_complex(array: Array) -> Array:
    """Return `array` with complex elements of the same precision."""
    return array if array.dtype.kind == "c" else array.astype(np.result_type(array.dtype, np.complex64))


def lu(array: Array) -> tuple[Array, Array, Array]:
    """Return both factors of P^T @ array = L @ U in one array, the pivots, and the order of the rows.

    It runs Gaussian elimination with partial pivoting on all matrices of a batch together, because NumPy has
    no LU factorization. As in LAPACK, a pivot is the row, counted from 1, that a step swaps with its own row.
    """
    factors = np.array(array, order="C").reshape(math.prod(array.shape[:-2]), *array.shape[-2:])
    count, rows, columns = factors.shape
    steps, batch = min(rows, columns), np.arange(count)
    pivots = np.empty((count, steps), np.int32)
    order = np.tile(np.arange(rows), (count, 1))
    for j in range(steps):
        column = factors[:, j:, j]
        sizes = np.abs(column.real) + np.abs(column.imag) if factors.dtype.kind == "c" else np.abs(column)
        pivot_row = j + np.argmax(sizes, axis=1)
        pivots[:, j] = pivot_row + 1
        for moved in (factors, order):
            moved[batch, pivot_row], moved[:, j] = moved[:, j].copy(), moved[batch, pivot_row].copy()
        pivot = factors[:, j, j, None]
        factors[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
        factors[:, j + 1 :, j + 1 :] -= factors[:, j + 1 :, j, None] * factors[:, j, None, j + 1 :]
    outer = array.shape[:-2]
    return factors.reshape(array.shape), pivots.reshape(*outer, steps), order.reshape(*outer, rows)
