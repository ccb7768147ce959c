"""An array in shared memory with one writer and several readers (a seqlock)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tensor._dtypes import Array

if TYPE_CHECKING:
    from nn.parallel.regions import Layout, Region


class SharedValues:
    """An array of integers in shared memory: a read returns the values of the last write.

    There are two copies, written in turn, and a flag that counts the writes, as in a seqlock. So the last
    complete copy stays whole even if the writer is killed. A reader checks the flag again after its read. If
    the flag has changed, the copy may have been overwritten, and the reader reads again.

    Parameters
    ----------
    layout
        The layout that reserves its memory; call `attach` when the region exists.
    shape
        The shape of the array.
    """

    def __init__(self, layout: Layout, *shape: int) -> None:
        self._shape = shape
        self._flag_at = layout.add(8)
        self._copies_at = layout.add(2 * 8 * prod(shape))

    def attach(self, region: Region) -> None:
        """Use the memory in `region`, which has this layout."""
        self._flags = region.flags
        self._flag = region.flags_at(self._flag_at)
        copies = region.array_at(self._copies_at, np.dtype(np.int64), 2 * prod(self._shape))
        self._copies = copies.reshape(2, *self._shape)

    def write(self, values: Array | list[int]) -> None:
        """Write `values`. Only one worker may call this, one call after the other."""
        number = self._flags.get(self._flag) + 1
        self._copies[number % 2] = values
        self._flags.set(self._flag, number)

    def read(self) -> Array | None:
        """Return a copy of the values of the last write, None if there was none."""
        while number := self._flags.get(self._flag):
            found: Array = self._copies[number % 2].copy()
            if self._flags.get(self._flag) == number:
                return found
        return None
