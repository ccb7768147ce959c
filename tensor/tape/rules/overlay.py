"""The derivatives of a write to a view, for other tensors on the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor.tape.rules.table import define


class Places:
    """The positions of an array's elements in a block, counted in elements from the start of the block."""

    __slots__ = ("first", "shape", "steps")

    def __init__(self, array: np.ndarray[Any, Any], start: int) -> None:
        size = array.itemsize
        self.first: Any = (array.__array_interface__["data"][0] - start) // size
        self.steps: tuple[int, ...] = tuple([stride // size for stride in array.strides])
        self.shape: Any = array.shape

    def indices(self) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Return the position of each element, in the shape of the array."""
        places = np.full(self.shape, self.first, np.intp)
        for axis, (n, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            along = np.arange(n) * step
            places += along.reshape([n if i == axis else 1 for i in range(len(self.shape))])
        return places


def _kept(xp: Any, g: Any, whole_places: Places, part_places: Places) -> Any:
    """Return the gradient of the old values: 0 for elements that were written."""
    return xp.where(np.isin(whole_places.indices(), part_places.indices()), 0, g)


def _written(xp: Any, g: Any, whole_places: Places, part_places: Places) -> Any:
    """Return the gradient of the written values: the gradient of the whole tensor at their positions."""
    whole, part = whole_places.indices(), part_places.indices()
    flat, places = np.unique(whole, return_inverse=True)
    sums = xp.scatter_add(xp.reshape(g, (-1,)), (places.reshape(-1),), flat.shape)
    at = np.minimum(np.searchsorted(flat, part), flat.size - 1)
    return xp.where(flat[at] == part, sums[at], 0)


define("overlay", whole=_kept, part=_written)
