"""An array in shared memory that one worker replaces as a whole, and others read while it does."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nn.parallel.regions import Layout, Region
    from tensor.lowlevel import Array


class Latest:
    """Whole numbers of a shape, the newest that were written.

    There are two copies, written in turn, and a flag that counts them: the one that is announced is whole,
    also where the writer is killed. Who reads looks at the flag again: if it has moved on, the copy may have
    been written over.

    Parameters
    ----------
    layout
        Where a place is taken for it; `lie_in` is called when the region is there.
    shape
        Of the array.
    """

    def __init__(self, layout: Layout, *shape: int) -> None:
        self._shape = shape
        self._flag_at = layout.add(8)
        self._copies_at = layout.add(2 * 8 * prod(shape))

    def lie_in(self, region: Region) -> None:
        """Take the place in `region`, which was made by the layout."""
        self._flags = region.flags
        self._flag = region.flags_at(self._flag_at)
        copies = region.array_at(self._copies_at, np.dtype(np.int64), 2 * prod(self._shape))
        self._copies = copies.reshape(2, *self._shape)

    def write(self, values: Array | list[int]) -> None:
        """Let `values` be the newest; called by one worker alone, one call after the other."""
        number = self._flags.get(self._flag) + 1
        self._copies[number % 2] = values
        self._flags.set(self._flag, number)

    def read(self) -> Array | None:
        """Return a copy of what was written last, None if nothing was."""
        while number := self._flags.get(self._flag):
            found: Array = self._copies[number % 2].copy()
            if self._flags.get(self._flag) == number:
                return found
        return None
