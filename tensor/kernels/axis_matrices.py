"""Sparse matrices along an axis: each element of the output is a weighted sum of a few elements of the input.

Average pools, resampling and bags of embeddings multiply by one such matrix for each axis. The derivative is
a multiplication by the transpose, so derivatives of all orders are such products too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np

from tensor._dtypes import Array
from tensor.kernels.products import sparse_product


class AxisMatrix:
    """A sparse matrix: row i has the entries from ``starts[i]`` to ``starts[i + 1]``.

    Attributes
    ----------
    starts
        int64, with one element more than rows.
    columns
        int64, the index into the input for each entry.
    weights
        The factor of each entry.
    length
        The size of the input.
    """

    def __init__(self, starts: Array, columns: Array, weights: Array, length: int) -> None:
        # The kernel reads contiguous arrays of these dtypes.
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.columns = np.ascontiguousarray(columns, np.int64)
        self.weights, self.length = weights, length
        if columns.size and not 0 <= columns.min() <= columns.max() < length:
            raise IndexError(
                f"columns must be from 0 to {length - 1}, not from {columns.min()} to {columns.max()}"
            )

    @classmethod
    def of_rows(cls, places: Array, weights: Array, length: int) -> Self:
        """Return a matrix from arrays of shape ``(rows, entries)``, without entries of weight 0."""
        kept = weights != 0
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return cls(starts, places[kept], weights[kept].astype(np.float64), length)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self.starts.size - 1

    @cached_property
    def transposed(self) -> AxisMatrix:
        """The transposed matrix, from the output to the input."""
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(self.output_size), np.diff(self.starts))
        starts = np.zeros(self.length + 1, np.int64)
        np.cumsum(np.bincount(self.columns, minlength=self.length), out=starts[1:])
        return AxisMatrix(starts, rows[order], self.weights[order], self.output_size)

    def __call__(self, x: Array, axis: int) -> Array:
        """Return `x` (float32 or float64) multiplied along `axis`."""
        weights = np.ascontiguousarray(self.weights, x.dtype)
        return sparse_product(np.ascontiguousarray(x), axis, self.starts, self.columns, weights)


def multiply_axes(x: Array, maps: Sequence[tuple[int, AxisMatrix]]) -> Array:
    """Return `x` multiplied along several axes. Compute float16 in float32."""
    dtype = np.result_type(x.dtype, np.float32)
    found = x.astype(dtype, order="C", copy=False)
    # Apply matrices that make the array smaller first, and those that make it larger last, from the last axis
    # to the first.
    for axis, along in sorted(maps, key=_growth):
        found = along(found, axis)
    return found.astype(x.dtype, copy=found is x)


def _growth(entry: tuple[int, AxisMatrix]) -> tuple[bool, int]:
    axis, along = entry
    grows = along.output_size > along.length
    return grows, -axis if grows else axis
