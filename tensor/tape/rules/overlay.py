"""The derivatives of a write to a view, for other tensors on the same memory."""

from __future__ import annotations

import math
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

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def is_same_order(self, other: Places) -> bool:
        """Return whether both have the same elements in the same order, perhaps in other shapes."""
        if self.first != other.first or self.size != other.size:
            return False
        same_layout = self.shape == other.shape and self.steps == other.steps
        return same_layout or (self.is_dense() and other.is_dense())

    def is_dense(self) -> bool:
        """Return whether the elements stand in order, one beside the other."""
        expected = 1
        for n, step in zip(reversed(self.shape), reversed(self.steps), strict=True):
            if n != 1 and step != expected:
                return False
            expected *= n
        return True


def _kept(xp: Any, g: Any, whole_places: Places, part_places: Places) -> Any:
    """Return the gradient of the old values: 0 for elements that were written."""
    if whole_places.is_dense():
        at = part_places.indices() - whole_places.first
        is_written = np.zeros(whole_places.size, np.bool_)
        is_written[at[(at >= 0) & (at < whole_places.size)]] = True
        return xp.where(is_written.reshape(whole_places.shape), 0, g)
    return xp.where(np.isin(whole_places.indices(), part_places.indices()), 0, g)


def _moved(xp: Any, g: Any, source: Places, target: Places) -> Any:
    """Return the sums of the elements of `g`, which are at `source`, for each element of `target`."""
    if source.is_same_order(target):
        return xp.reshape(g, target.shape)
    if target.is_dense():
        at = source.indices() - target.first
        if source.size and at.min() >= 0 and at.max() < target.size:
            sums = xp.scatter_add(xp.reshape(g, (-1,)), (at.reshape(-1),), (target.size,))
            return xp.reshape(sums, target.shape)
    whole, part = source.indices(), target.indices()
    flat, places = np.unique(whole, return_inverse=True)
    sums = xp.scatter_add(xp.reshape(g, (-1,)), (places.reshape(-1),), flat.shape)
    at = np.minimum(np.searchsorted(flat, part), flat.size - 1)
    return xp.where(flat[at] == part, sums[at], 0)


def _written(xp: Any, g: Any, whole_places: Places, part_places: Places) -> Any:
    """Return the gradient of the written values: the gradient of the whole tensor at their positions."""
    return _moved(xp, g, whole_places, part_places)


def _read(xp: Any, g: Any, whole_places: Places, part_places: Places) -> Any:
    """Return the gradient of a whole tensor of which a view is read again."""
    return _moved(xp, g, part_places, whole_places)


define("overlay", whole=_kept, part=_written)
define("read_places", whole=_read)
