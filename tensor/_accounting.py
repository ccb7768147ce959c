"""The books of memory: what is live, its peaks and its limit, exact and without a lock.

The unit is the *owner array*, under which the memory is. A small one is counted by references: all buffers
of one size hold a reference to the one `Size` of that many bytes, and what a reference count says is alive
needs no finalizer. The way of a small new array `out`, written out where every nanosecond counts:

    n = out.nbytes
    try:
        hold = sizes[n]
    except KeyError:
        hold = hold_of(out)  # of tensor._pool: the first of its size, or a large one
    else:
        hold.made += 1
        count = getrefcount(hold)
        if count > hold.high:
            charge(n, count)
    x._hold = hold

A large one has a `Lease`, a weak reference whose callback is a method of C: nothing of ours runs while
memory is let go, and the next allocation or reading finds it in `released`.

``books.room`` says how much more may be taken before a peak rises or the limit is met. It is cautious: of
each size it takes as many for alive as there ever were at once since the last ``take_stock``, which counts
anew. So a loop that makes and drops buffers of the same sizes again and again never comes to ``settle``.

No lock is needed, and finalizers may allocate at any point: as in `scopes._statistics`, CPython hands the GIL
over at calls and backward jumps only, a call of C that runs no Python is one step, and whatever several
threads change is changed by ``+=``.
"""

from __future__ import annotations

import gc
from collections import deque
from itertools import repeat
from operator import add, attrgetter, mul, sub
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Protocol
from weakref import getweakrefs, ref

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, np.dtype[Any]]

# More sizes than that are counted by leases: taking stock costs 130 ns for each size.
MOST_SIZES = 256


class Size:
    """All small buffers of `nbytes` bytes: each holds one reference to this."""

    __slots__ = ("high", "made", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        # How many were ever made.
        self.made = 0
        # The reference count up to which `books.room` has been charged, as the hot path reads it.
        self.high = _HOT


class Peak:
    """The most bytes that were live at once since somebody began to look."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class Shelf(Protocol):
    """Where a lease's block goes back to."""

    def put(self, block: tuple[Any, int]) -> None: ...


class Lease(ref[Array]):
    """A large buffer, for as long as its owner array is alive."""

    __slots__ = ("block", "nbytes", "shelf")

    nbytes: int
    # The pool's memory under it, and where that goes back to; None for memory that is NumPy's.
    block: tuple[Any, int] | None
    shelf: Shelf | None

    # Those of `ref` ask the referent.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _no_trim(_to_bytes: int) -> int:
    return 0


class Books:
    """The figures of the process. Whoever changes one writes ``+=``."""

    __slots__ = (
        "cached",
        "donation_miss",
        "donation_reuse",
        "external",
        "floor",
        "leased",
        "leased_count",
        "limit",
        "lives",
        "miss",
        "peaks",
        "reuse",
        "room",
        "trim",
        "version",
    )

    def __init__(self) -> None:
        # The lowest of all peaks and the limit, and what is left up to there.
        self.floor = 0
        self.room = 0
        # Bytes under leases: now, and all that ever were; and how many leases of small buffers.
        self.lives = 0
        self.leased = 0
        self.leased_count = 0
        # Bytes in the pool, bytes borrowed.
        self.cached = 0
        self.external = 0
        self.reuse = 0
        self.miss = 0
        self.donation_reuse = 0
        self.donation_miss = 0
        self.limit: int | None = None
        # Of those who look, by id. The first is the process.
        self.peaks: dict[int, Peak] = {}
        # Goes up when a peak comes or goes, is set back, or the limit changes.
        self.version = 0
        # Gives the pool's memory back to the system until at most so many bytes are cached; set by the pool.
        self.trim: Callable[[int], int] = _no_trim


_HOT = 0


def _hot_count(offered: dict[int, Size], n: int) -> int:
    hold = offered[n]
    return getrefcount(hold)


def _calibrate() -> tuple[int, int]:
    """Return what the hot path and ``map`` count for a size that no buffer holds; interpreters differ."""
    offered = {0: Size(0)}
    every = dict(offered)
    listed = [*every.values()]
    counts: list[int] = []
    counts.extend(map(getrefcount, listed))
    # In the hot path the variable is what the new buffer will hold.
    return _hot_count(offered, 0) - 1, counts[0]


_HOT, _MAPPED = _calibrate()

# The sizes that new buffers may be counted by; those below them in number that are known at all (never
# dropped), also as a list; those that are known but no longer offered.
sizes: dict[int, Size] = {}
_known: dict[int, Size] = {}
_tokens: list[Size] = []
_withdrawn: dict[int, Size] = {}

leases: set[Lease] = set()
released: deque[Lease] = deque()

books = Books()
process_peak = Peak(0)
books.peaks[id(process_peak)] = process_peak

_nbytes_of = attrgetter("nbytes")
_high_of = attrgetter("high")
_sink: deque[None] = deque(maxlen=0)
_leave = released.append


def size_of(n: int) -> Size | None:
    """Return the size of `n` bytes, offered from now on; None when there are too many sizes."""
    if n not in _known:
        if len(_known) >= MOST_SIZES:
            return None
        size = Size(n)
        if _known.setdefault(n, size) is size:
            _tokens.append(size)
        del size
    # Whether offered or withdrawn, a size has the same number of references.
    sizes.setdefault(n, _known[n])
    _withdrawn.pop(n, None)
    return sizes[n]


def withdraw_sizes(from_bytes: int) -> None:
    """Count new buffers of `from_bytes` and more by leases."""
    for n in [n for n in list(sizes) if n >= from_bytes]:
        _withdrawn[n] = sizes.pop(n)


def lease(owner: Array, block: tuple[Any, int] | None = None, shelf: Shelf | None = None) -> None:
    """Count `owner` for as long as it is alive. Then `block`, if any, goes back to `shelf`."""
    new = Lease(owner, _leave)
    n = new.nbytes = owner.nbytes
    new.block = block
    new.shelf = shelf
    leases.add(new)
    books.lives += n
    books.leased += n
    room = books.room = books.room - n
    if room < 0:
        settle()


def drain() -> None:
    """Strike out the leases whose arrays are gone, and put their blocks back."""
    while True:
        try:
            gone = released.popleft()
        except IndexError:
            return
        leases.discard(gone)
        n = gone.nbytes
        books.lives -= n
        books.room += n
        if gone.shelf is not None and gone.block is not None:
            gone.shelf.put(gone.block)


def charge(n: int, count: int) -> None:
    """Take note that `count` references to the size of `n` bytes were seen, more than ever."""
    # No variable holds the size: it would count as a buffer.
    high = _known[n].high
    if count > high:
        _known[n].high = count
        room = books.room = books.room - n * (count - high)
        if room < 0:
            settle()


def take_stock() -> int:
    """Count what is taken now, pinned large buffers included; raise the peaks that what is live is above."""
    if released:
        drain()
    counts: list[int] = []
    counting, extend = map(getrefcount, _tokens), counts.extend
    lives = books.lives
    extend(counting)
    taken = lives + _total(counts, _MAPPED)
    if taken > books.floor:
        live = taken - pinned()[1]
        for peak in list(books.peaks.values()):
            if live > peak.nbytes:
                peak.nbytes = live
    # Counted and noted in one step, so that no buffer of another thread comes between.
    again = map(add, map(getrefcount, _tokens), repeat(_HOT - _MAPPED))
    _sink.extend(map(setattr, _tokens, repeat("high"), again))
    highs: list[int] = []
    reading, extend = map(_high_of, _tokens), highs.extend
    room, lives, floor = books.room, books.lives, books.floor
    extend(reading)
    books.room += floor - lives - _total(highs, _HOT) - room
    set_floor()
    return taken


def _total(counts: list[int], of_none: int) -> int:
    return sum(map(mul, map(_nbytes_of, _tokens), map(sub, counts, repeat(of_none))))


def set_floor() -> None:
    """Bring `books.floor` in line with the peaks, the limit and what the pool keeps."""
    while True:
        version = books.version
        floor = min(map(_nbytes_of, list(books.peaks.values())))
        if books.limit is not None:
            floor = min(floor, books.limit - books.cached)
        # No call from here to the end: other threads come before or after.
        if books.version == version:
            change = floor - books.floor
            books.floor += change
            books.room += change
            return


def settle() -> None:
    """See what is really live, now that the room is used up.

    Raises
    ------
    OutOfMemoryError
        When more is live than the limit allows, after the pool was trimmed and garbage collected.
    """
    taken = take_stock()
    if books.limit is not None and taken + books.cached > books.limit:
        make_room(0)


def make_room(asked: int) -> None:
    """See to it that `asked` bytes more stay within the limit: trim the pool, then collect garbage.

    Raises
    ------
    OutOfMemoryError
        When that is not enough.
    """
    limit = books.limit
    if limit is None:
        return
    taken = take_stock() + pinned()[0]
    if taken + books.cached + asked <= limit:
        return
    books.trim(max(limit - taken - asked, 0))
    if taken + asked <= limit:
        return
    gc.collect()
    taken = take_stock() + pinned()[0]
    books.trim(max(limit - taken - asked, 0))
    if taken + asked > limit:
        # Until there is room, every small buffer comes to `charge`.
        _sink.extend(map(setattr, _tokens, repeat("high"), repeat(_HOT)))
        raise OutOfMemoryError(asked, taken, books.cached, limit)


class OutOfMemoryError(MemoryError):
    """More memory was asked for than the limit allows, or than the system has. Nothing has changed.

    Attributes
    ----------
    asked : int
        The bytes that were asked for; 0 when small buffers together went over the limit.
    live : int
        The bytes that were live, pinned ones included.
    cached : int
        The bytes in the pool.
    limit : int or None
        The limit in bytes; None when it was the system that refused.
    holders : tuple of str
        The largest holders of memory, in words.
    """

    def __init__(self, asked: int, live: int, cached: int, limit: int | None) -> None:
        self.asked = asked
        self.live = live
        self.cached = cached
        self.limit = limit
        self.holders: tuple[str, ...] = ()
        super().__init__(f"{asked} {live} {cached} {limit}")


class Export(ref[Array]):
    """A block that outsiders were given, and the storage that is over it, while both are alive."""

    __slots__ = ("is_large", "nbytes", "storage")

    nbytes: int
    is_large: bool
    storage: ref[Any]

    __hash__ = object.__hash__
    __eq__ = object.__eq__


exports: set[Export] = set()
_end_export = exports.discard


def note_export(block: Array, storage: Any) -> None:
    """Remember that outsiders look at `block`: when `storage` lets go of it before them, it is pinned."""
    if block.base is not None and not is_leased(block):
        return  # somebody else's memory
    export = Export(block, _end_export)
    export.nbytes = block.nbytes
    export.is_large = is_leased(block)
    export.storage = ref(storage)
    exports.add(export)


def forget_export(block: Array) -> None:
    """Forget what was noted: no outsider looks at `block` any more."""
    for export in list(exports):
        if export() is block:
            exports.discard(export)


def pinned() -> tuple[int, int]:
    """Return the bytes that outsiders alone still see: in small buffers, and under leases."""
    small = large = 0
    for export in list(exports):
        block = export()
        storage = export.storage()
        if block is not None and (storage is None or storage.block is not block):
            if export.is_large:
                large += export.nbytes
            else:
                small += export.nbytes
    return small, large


def is_leased(owner: Array) -> bool:
    """Tell whether `owner` has a lease."""
    return any(type(reference) is Lease for reference in getweakrefs(owner))


def note_borrowed(nbytes: int) -> None:
    """Count `nbytes` bytes of somebody else's memory."""
    books.external += nbytes


def give_back(nbytes: int) -> None:
    """Count `nbytes` bytes of somebody else's memory no longer; finalizers may call it."""
    books.external -= nbytes
