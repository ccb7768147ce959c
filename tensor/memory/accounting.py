"""The books of memory: what is live and how much more may be, exact, without a lock or a finalizer.

The unit is the *owner array*, under which the memory is. A small one is counted by references: all small
buffers of one size hold a reference to the one `Size` of that many bytes, and its reference count tells how
many are alive. The way of a small new array `out`, written out where every nanosecond counts:

    n = out.nbytes
    try:
        hold = sizes[n]
    except KeyError:
        hold = hold_of(out)  # of tensor.memory.pool: the first of its size, or a large one
    else:
        left = hold.left = hold.left - 1
        if left < 0 and (getrefcount(hold) > hold.high or not left & 255):
            charge(n)
    x._hold = hold

A large one has a `Lease` of a `Block`, a weak reference whose callback is a method of C: nothing of ours runs
while memory is let go; the next allocation or reading finds the lease in `released`.

``books.room`` is what may still be taken before a peak rises or the limit is met. It is cautious, for the end
of a small buffer is not seen. Each size has room for as many buffers as its `high` says, and as long as no
more are alive at once, nothing needs to be done but now and then to look at one reference count (`charge`).
When there is no room to give in advance, each new buffer looks at the reference count itself, and every 256th
asks for room again. When the room is used up, ``take_stock`` counts what is really alive, and peaks rise by
that alone.

No lock is needed, so finalizers may allocate at any point. As in `scopes.core.tallies`: CPython hands the GIL
over at calls and backward jumps only, and a call into C that makes no container and runs no Python is one
step. What several threads change, they change by ``+=``. A variable that holds a `Size` counts as a buffer,
so there is none but in the way above.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter, mul, sub
from sys import getrefcount

from tensor.memory.books import (
    MAPPED_OF_NONE,
    REFERENCES_OF_NONE,
    SET_OF_NONE,
    Array,
    Block,
    Lease,
    Peak,
    array_in,
    run,
    set_highs,
)
from tensor.memory.books import Size as Size  # for those who hold one
from tensor.memory.leases import blocks, books, drain, leave, orphaned, pin, pinned, released

# Buffers of further sizes are counted by leases. To take stock costs 200 ns for each size.
MOST_SIZES = 256
# After so many looks at a reference count for which there was no room in advance, stock is taken.
_PATIENCE = 128

# The sizes that new buffers are counted by.
sizes: dict[int, Size] = {}
# All sizes that ever were, in a dict and in a list, and those that are offered no more.
_known: dict[int, Size] = {}
_tokens: list[Size] = []
_withdrawn: dict[int, Size] = {}

process_peak = Peak(0, is_exact=False)
books.peaks[id(process_peak)] = process_peak

_nbytes_of = attrgetter("nbytes")
_high_of = attrgetter("high")


def offer_size(n: int) -> bool:
    """Let buffers of `n` bytes be counted by their size; False when there are too many sizes."""
    if n not in _known:
        if len(_known) >= MOST_SIZES:
            return False
        size = Size(n, REFERENCES_OF_NONE)
        if _known.setdefault(n, size) is size:
            _tokens.append(size)
        del size
    sizes.setdefault(n, _known[n])
    _withdrawn.pop(n, None)
    return True


def withdraw_sizes(from_bytes: int) -> None:
    """Let new buffers of `from_bytes` and more be counted by leases."""
    for n in [n for n in list(sizes) if n >= from_bytes]:
        _withdrawn[n] = sizes.pop(n)


def charge(n: int) -> None:
    """See whether more buffers of `n` bytes are alive than there is room for, and make room in advance.

    Raises
    ------
    OutOfMemoryError
        When more is live than the limit allows.
    """
    before = _known[n].left
    count = getrefcount(_known[n])
    # From here on without a call, so that no other thread sees `size`. One may have made buffers just now.
    size = _known[n]
    left = size.left
    if left >= 0:
        return  # or have made room
    count += before - left
    high = size.high
    room = books.room
    more = high - count
    advance = room // (8 * n) if n else _PATIENCE
    if more < advance:
        more = advance if advance < 1024 else 1024
    if more > 0:
        books.grants += 1
    else:
        more = 0
        books.tight += 1
    size.left = more
    size.given += more - left
    size.high = count + more
    room = books.room = room - n * (count + more - high)
    del size
    if room < 0:
        settle()
    elif not more and books.tight % _PATIENCE == 0:
        take_stock()


def lease(owner: Array, n: int, block: Block) -> None:
    """Count the `n` bytes of `owner`, which lies in `block`, for as long as it is alive.

    Raises
    ------
    OutOfMemoryError
        When more is live than the limit allows.
    """
    new = block.lease = Lease(owner, leave)
    new.block = block
    block.nbytes = n
    books.lives += n
    books.leased += n
    room = books.room = books.room - n
    if room < 0:
        settle()


def settle() -> None:
    """Find room now that it is used up; if there is none, see what is really live.

    Raises
    ------
    OutOfMemoryError
        When that is more than the limit allows.
    """
    if released:
        drain()
    if orphaned:
        pin()
    counts: list[int] = []
    counting, extend = map(getrefcount, _tokens), counts.extend
    lives, room, floor = books.lives, books.room, books.floor
    extend(counting)
    live = lives + _total(counts, MAPPED_OF_NONE)
    if live > floor:
        _raise_peaks(live)
        set_floor()
    # What is live fits in: either there is no more than that, or some sizes have room that nobody uses.
    for place in range(len(_tokens) if live < floor - room else 0):
        if books.room >= 0:
            break
        _lower(place)
    if books.room < 0:
        take_stock()
    if books.limit is not None:
        books.make_room(0)


def _lower(place: int) -> None:
    """Take back what one size has room for beyond what is alive."""
    before = _tokens[place].left
    count = getrefcount(_tokens[place])
    # From here on without a call, as in `charge`.
    size = _tokens[place]
    left = size.left
    count += before - left
    high = size.high
    if count < high and left <= before:
        if left > 0:
            size.left = 0
            size.given -= left
        size.high = count
        books.room += size.nbytes * (high - count)


def take_stock() -> int:
    """Count the bytes that are live, raise the peaks that they are above, and correct the room."""
    if released:
        drain()
    if orphaned:
        pin()
    live = _count()
    _raise_peaks(live)
    _lower_highs()
    _correct_room()
    set_floor()
    return live


def _raise_peaks(live: int) -> None:
    for peak in list(books.peaks.values()):
        if live > peak.nbytes:
            peak.nbytes = live


def look() -> int:
    """Return what is live, for somebody who wants to know: the peak of the process is exact from now on."""
    live = take_stock()
    if not process_peak.is_exact:
        process_peak.is_exact = True
        books.version += 1
        set_floor()
    return live


def _count() -> int:
    counts: list[int] = []
    counting, extend = map(getrefcount, _tokens), counts.extend
    lives = books.lives
    extend(counting)
    return lives + _total(counts, MAPPED_OF_NONE)


def _total(counts: list[int], of_none: int) -> int:
    return sum(map(mul, map(_nbytes_of, _tokens), map(sub, counts, repeat(of_none))))


def _lower_highs() -> None:
    """Take back what sizes have room for beyond what is alive."""
    while True:
        grants = books.grants
        for place in range(len(_tokens)):
            left = _tokens[place].left
            if left > 0:
                _tokens[place].left -= left
                _tokens[place].given -= left
        set_highs(_tokens, REFERENCES_OF_NONE - SET_OF_NONE)
        if books.grants == grants:
            return


def _correct_room() -> None:
    while True:
        corrections = books.corrections
        highs: list[int] = []
        reading, extend = map(_high_of, _tokens), highs.extend
        room, lives, floor = books.room, books.lives, books.floor
        extend(reading)
        correction = floor - lives - _total(highs, REFERENCES_OF_NONE) - room
        if books.corrections == corrections:
            books.corrections += 1
            books.room += correction
            return


def look_at_each() -> None:
    """Send every small buffer that is made to `charge`, until stock is taken."""
    for place in range(len(_tokens)):
        left = _tokens[place].left
        if left > 0:
            _tokens[place].left -= left
            _tokens[place].given -= left
    run(map(setattr, _tokens, repeat("high"), repeat(REFERENCES_OF_NONE)))


def set_floor() -> None:
    """Bring the floor in line with the peaks, the limit and what the pool keeps."""
    while True:
        version = books.version
        floor = min([peak.floor() for peak in list(books.peaks.values())])
        if books.limit is not None:
            floor = min(floor, books.limit - books.cached - pinned())
        if books.version == version:
            change = floor - books.floor
            books.floor += change
            books.room += change
            return


def watch() -> Peak:
    """Return a peak that rises from now on, until ``unwatch``."""
    peak = Peak(0)
    books.peaks[id(peak)] = peak
    restart(peak)
    return peak


def restart(peak: Peak) -> None:
    """Let `peak` start again at what is live now."""
    peak.nbytes = take_stock()
    books.version += 1
    set_floor()
    take_stock()


def unwatch(peak: Peak) -> None:
    """Let `peak` rise no more."""
    take_stock()
    books.peaks.pop(id(peak), None)
    books.version += 1
    set_floor()


def made() -> tuple[int, int]:
    """Return how many buffers were ever counted by their size, and their bytes."""
    count = nbytes = 0
    for place in range(len(_tokens)):
        of_size = _tokens[place].given - _tokens[place].left
        count += of_size
        nbytes += of_size * _tokens[place].nbytes
    return count, nbytes


def small() -> dict[int, int]:
    """Return how many small buffers of each size are alive."""
    counts: list[int] = []
    counts.extend(map(getrefcount, _tokens))
    found = dict(zip(map(_nbytes_of, _tokens), map(sub, counts, repeat(MAPPED_OF_NONE)), strict=False))
    for block in list(blocks):
        if block.is_small and array_in(block) is not None:
            found[block.nbytes] = found.get(block.nbytes, 0) + 1
    return found
