"""What the books of memory are made of: sizes, leases, peaks, figures; and how references are counted."""

from __future__ import annotations

from collections import deque
from itertools import repeat
from operator import add
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Protocol
from weakref import getweakrefs, ref

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, np.dtype[Any]]


class Size:
    """All small buffers of `nbytes` bytes: each holds one reference to this."""

    __slots__ = ("given", "high", "left", "nbytes")

    def __init__(self, nbytes: int, high: int) -> None:
        self.nbytes = nbytes
        # How many more may be made without a look at the reference count, and how many ever might.
        self.left = 0
        self.given = 0
        # The reference count for which there is room, as `charge` reads it.
        self.high = high


class Peak:
    """The most bytes that were live at once since somebody began to look.

    One that nobody has looked at yet need not be exact: it may be 1/64 too low, or 64 KiB. So small tensors
    that come and go below need no look at what is live.
    """

    __slots__ = ("is_exact", "nbytes")

    def __init__(self, nbytes: int, *, is_exact: bool = True) -> None:
        self.nbytes = nbytes
        self.is_exact = is_exact

    def floor(self) -> int:
        """Return the bytes up to which what is live is not counted anew."""
        return self.nbytes if self.is_exact else self.nbytes + max(self.nbytes >> 6, 1 << 16)


class Shelf(Protocol):
    """Where a block that is free waits."""

    last_use: int

    def put(self, block: Block) -> None: ...


class Block:
    """The memory of one buffer after another; without a shelf it is NumPy's, and of one buffer only."""

    __slots__ = ("is_pinned", "is_small", "lease", "memory", "nbytes", "offset", "shelf")

    def __init__(self, memory: Any, offset: int, shelf: Shelf | None, *, is_small: bool = False) -> None:
        # Where in the memory the first byte at a multiple of 64 is.
        self.memory = memory
        self.offset = offset
        self.shelf = shelf
        # Too small for the pool, and of one size too many to be counted by it.
        self.is_small = is_small
        # The buffer that lies in it, or lay in it last: its bytes, and whether outsiders alone see it.
        self.lease: Lease | None = None
        self.nbytes = 0
        self.is_pinned = False


class Lease(ref[Array]):
    """The owner array of a large buffer; its end is the end of the buffer."""

    __slots__ = ("block",)

    block: Block

    # Those of `ref` ask the referent.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def owner_of(array: Array) -> Array:
    """Return the array that owns the memory under `array`."""
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array


def block_of(owner: Array) -> Block | None:
    """Return the block that `owner` lies in, if any."""
    for reference in getweakrefs(owner):
        if type(reference) is Lease:
            return reference.block
    return None


def array_in(block: Block) -> Array | None:
    """Return the owner array that lies in `block`, if there is one."""
    lease = block.lease
    return None if lease is None else lease()


class Seen(ref[Any]):
    """A storage whose block outsiders were given, for as long as it is alive."""

    __slots__ = ("block", "key", "nbytes")

    block: ref[Array]
    key: int
    nbytes: int

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Pinned(ref[Array]):
    """A small block that outsiders alone still see, for as long as they do."""

    __slots__ = ("nbytes",)

    nbytes: int

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _nothing(_nbytes: int) -> int:
    return 0


class Books:
    """The figures of the process, in bytes where nothing else is said."""

    __slots__ = (
        "cached",
        "corrections",
        "donation_miss",
        "donation_reuse",
        "external",
        "floor",
        "grants",
        "leased",
        "leased_small",
        "limit",
        "lives",
        "make_room",
        "miss",
        "peaks",
        "pinned",
        "reuse",
        "room",
        "tight",
        "version",
    )

    def __init__(self) -> None:
        # The lowest of all peaks and the limit, and what is left up to there. Room is at most
        # floor - lives - what all sizes have room for.
        self.floor = 0
        self.room = 0
        # Under leases: live, pinned, and all that ever was.
        self.lives = 0
        self.pinned = 0
        self.leased = 0
        self.cached = 0
        self.external = 0
        # How many leases were of buffers below the pool's sizes.
        self.leased_small = 0
        # How often a block was found in the pool, and how often fresh memory was taken.
        self.reuse = 0
        self.miss = 0
        self.donation_reuse = 0
        self.donation_miss = 0
        self.limit: int | None = None
        # Raises OutOfMemoryError when so many bytes more are over the limit; set by `tensor.memory.pool`.
        self.make_room: Callable[[int], object] = _nothing
        # Of those who look, by id; one is the process.
        self.peaks: dict[int, Peak] = {}
        # How often the floor's reasons changed, room was corrected, sizes got room in advance or got none:
        # whoever computes something finds out whether another thread came between.
        self.version = 0
        self.corrections = 0
        self.grants = 0
        self.tight = 0


def _count_in_charge(offered: dict[int, Size]) -> int:
    hold = offered[0]
    count = _count_by_subscript(offered)
    del hold
    return count


def _count_by_subscript(offered: dict[int, Size]) -> int:
    return getrefcount(offered[0])


# Brings an iterator to its end without leaving C.
run = deque[None](maxlen=0).extend


def set_highs(tokens: list[Size], shift: int) -> None:
    """Set the high of each size to its reference count plus `shift`, all in one step."""
    run(map(setattr, tokens, repeat("high"), map(add, map(getrefcount, tokens), repeat(shift))))


def _calibrate() -> tuple[int, int, int]:
    """Return what `charge`, ``map`` and `set_highs` count for a size that no buffer holds."""
    # Interpreters differ. As many references as a size has: known, listed, and offered or withdrawn.
    offered = {0: Size(0, 0)}
    known = dict(offered)
    listed = [*known.values()]
    counts: list[int] = []
    counts.extend(map(getrefcount, listed))
    set_highs(listed, 0)
    return _count_in_charge(offered) - 1, counts[0], offered[0].high


REFERENCES_OF_NONE, MAPPED_OF_NONE, SET_OF_NONE = _calibrate()
