"""Linear maps along an axis: each element of the output is a weighted sum of a few elements of the input.

Average pools, resampling and bags of embeddings are such maps, one for each axis: sparse matrices. What one
gives is derived by its transpose, which is one too, so derivatives of all orders are maps.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from tensor.kernels.sparse import sparse_product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor._dtypes import Array


class AxisMap:
    """A sparse matrix: row i has the entries from ``starts[i]`` to ``starts[i + 1]``.

    Attributes
    ----------
    starts
        int64, one more than there are rows.
    columns
        int64, for each entry which element of the input it takes.
    weights
        For each entry by what it is multiplied.
    length
        How many elements the input has.
    """

    def __init__(self, starts: Array, columns: Array, weights: Array, length: int) -> None:
        # As the kernel reads them.
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.columns = np.ascontiguousarray(columns, np.int64)
        self.weights, self.length = weights, length
        if columns.size and not 0 <= columns.min() <= columns.max() < length:
            raise IndexError(f"a map of {length} elements takes none at {columns.min()} or {columns.max()}")

    @classmethod
    def of_rows(cls, places: Array, weights: Array, length: int) -> Self:
        """Return the map whose rows all have as many entries, ``(rows, entries)``; weights of 0 fall away."""
        kept = weights != 0
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return cls(starts, places[kept], weights[kept].astype(np.float64), length)

    @property
    def count(self) -> int:
        """How many elements the output has."""
        return self.starts.size - 1

    @cached_property
    def transposed(self) -> AxisMap:
        """The map from the output's elements to the input's."""
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(self.count), np.diff(self.starts))
        starts = np.zeros(self.length + 1, np.int64)
        np.cumsum(np.bincount(self.columns, minlength=self.length), out=starts[1:])
        return AxisMap(starts, rows[order], self.weights[order], self.count)

    def __call__(self, x: Array, axis: int) -> Array:
        """Return `x`, float32 or float64, mapped along `axis`."""
        weights = np.ascontiguousarray(self.weights, x.dtype)
        return sparse_product(np.ascontiguousarray(x), axis, self.starts, self.columns, weights)


def map_axes(x: Array, maps: Sequence[tuple[int, AxisMap]]) -> Array:
    """Return `x` mapped along each of some axes; float16 in float32."""
    dtype = np.result_type(x.dtype, np.float32)
    found = x.astype(dtype, order="C", copy=False)
    # Those that leave less come first; those that leave more last, from the last axis on.
    for axis, along in sorted(maps, key=_growth):
        found = along(found, axis)
    return found.astype(x.dtype, copy=found is x)


def _growth(entry: tuple[int, AxisMap]) -> tuple[bool, int]:
    axis, along = entry
    grows = along.count > along.length
    return grows, -axis if grows else axis
