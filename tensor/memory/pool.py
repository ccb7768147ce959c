"""The pool: blocks of large arrays that are gone, kept for the next ones.

An array from the pool is the owner of its memory as far as anybody can see: its base is a block (an mmap or
a bytearray), where NumPy stops looking for a view's base. When it dies nobody at all looks at the block
any more, for views, exported arrays and memoryviews hold it.
"""

from __future__ import annotations

import gc
import mmap
from itertools import cycle
from math import prod
from sys import maxsize
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.memory.accounting import (
    charge,
    lease,
    offer_size,
    set_floor,
    settle,
    sizes,
    take_stock,
    withdraw_sizes,
)
from tensor.memory.books import Block, Lease, block_of
from tensor.memory.leases import blocks, books, drain, forget, leave, pinned, released, strike
from tensor.memory.limits import OutOfMemoryError, make_room

if TYPE_CHECKING:
    from tensor.memory.books import Array, Size

_ALIGNMENT = 64
# A huge page of the usual systems. A fresh block of them is there 17 times sooner than one of small pages.
_HUGE = 2**21
# Blocks begin at different places of a page: where an op reads and writes at the same place of several pages,
# the processor takes one for the other. An addition of 1,000,000 takes 185 us so, and 205 without.
_PLACES = [i * 320 % 1024 for i in range(16)]
_FARTHEST = max(_PLACES)
_next_place = cycle(_PLACES).__next__
_ndarray = np.ndarray

# Where in it the first byte at a multiple of 64 is.
_Memory = tuple[bytearray | mmap.mmap, int]


class Shelf:
    """The blocks of one capacity that wait for the next array; the last one put is the first one taken.

    Its last use is told in bytes that were leased until then.
    """

    __slots__ = ("blocks", "capacity", "last_use")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks: list[Block] = []
        self.last_use = 0

    def put(self, block: Block) -> None:
        """Keep `block`, and let others go when there are too many."""
        if self.capacity > pool.max_cached:
            forget(block)
            return
        self.last_use = books.leased
        books.cached += self.capacity
        self.blocks.append(block)
        if books.cached > pool.max_cached:
            trim(pool.max_cached)
        elif books.limit is not None:
            set_floor()


class Pool:
    """The shelves and the settings."""

    __slots__ = ("by_nbytes", "fill", "max_cached", "min_pooled", "shelves")

    def __init__(self) -> None:
        self.max_cached = 2**30
        # Below, the C library's memory is as warm (`tensor.memory.heap`), and there in half the time.
        self.min_pooled = 2**19
        # The byte that uninitialised memory is filled with.
        self.fill: int | None = None
        self.shelves: dict[int, Shelf] = {}
        # The same shelves, by the sizes that were asked for.
        self.by_nbytes: dict[int, Shelf] = {}

    def shelf_for(self, n: int) -> Shelf:
        """Return the shelf of the blocks for `n` bytes."""
        capacity = capacity_for(n)
        shelf = self.shelves.setdefault(capacity, Shelf(capacity))
        if len(self.by_nbytes) > 4096:
            self.by_nbytes.clear()
        self.by_nbytes[n] = shelf
        return shelf


def capacity_for(n: int) -> int:
    """Return the size of the blocks for `n` bytes: 16 for each doubling, at most 6.25% more than `n`."""
    step = 1 << max((n - 1).bit_length() - 5, 6)
    return (n + step - 1) & -step


pool = Pool()


def empty(shape: tuple[int, ...], dtype: Any, like: Array | None = None) -> Array:
    """Return a new array whose values are whatever the memory held.

    In the order of memory of `like`, when it has the same shape. From `min_pooled` bytes on it comes from
    the pool and is counted; a smaller one is counted by whoever wraps it.
    """
    array = _place(shape, dtype, like)
    if pool.fill is not None and array.size:
        array.ravel(order="K").view(np.uint8).fill(pool.fill)
    return array


def zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return what ``empty`` does, filled with zeros."""
    dtype = np.dtype(dtype)
    n = prod(shape) * dtype.itemsize
    if n < pool.min_pooled or n > maxsize:
        return np.zeros(shape, dtype)
    drain()
    block, is_zero = _take(n)
    array = _lay_in(block, n, shape, dtype, None)
    if not is_zero:
        array.fill(0)
    return array


def _place(shape: tuple[int, ...], dtype: Any, like: Array | None) -> Array:
    if not isinstance(dtype, np.dtype):
        dtype = np.dtype(dtype)
    n = prod(shape) * dtype.itemsize
    if n < pool.min_pooled or n > maxsize:
        if like is None or like.shape != shape:
            return np.empty(shape, dtype)
        return np.empty_like(like, dtype, order="K", subok=False)
    if like is None or like.flags.c_contiguous or like.shape != shape:
        return room(n, shape, dtype)
    return room(n, shape, dtype, _strides(like, dtype.itemsize))


def room(n: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None) -> Array:
    """Return a new array of `n` bytes from the pool, for those who know that this is large."""
    if released:
        try:
            block = released.pop().block
        except IndexError:
            pass  # another thread was quicker
        else:
            shelf = block.shelf
            if block.nbytes == n and shelf is not None and not block.is_pinned:
                # As much comes as went: what is live, and what is cached, stays as it is.
                try:
                    array = _ndarray(shape, dtype, block.memory, block.offset, strides)
                except BaseException:
                    strike(block)
                    raise
                new = block.lease = Lease(array, leave)
                new.block = block
                books.reuse += 1
                shelf.last_use = books.leased = books.leased + n
                if released:
                    drain()
                if books.room < 0:
                    settle()
                return array
            strike(block)
            drain()
    return _lay_in(_take(n)[0], n, shape, dtype, strides)


def _take(n: int) -> tuple[Block, bool]:
    """Return a block for `n` bytes that nobody uses, and whether it is known to hold zeros."""
    try:
        shelf = pool.by_nbytes[n]
    except KeyError:
        shelf = pool.shelf_for(n)
    try:
        block = shelf.blocks.pop()
    except IndexError:
        block = Block(*_fresh_memory(shelf.capacity), shelf)
        blocks.add(block)
        books.miss += 1
        return block, True
    books.cached -= shelf.capacity
    books.reuse += 1
    shelf.last_use = books.leased + n
    if books.limit is not None:
        set_floor()
    return block, False


def _lay_in(block: Block, n: int, shape: tuple[int, ...], dtype: Any, strides: Any) -> Array:
    try:
        array: Array = _ndarray(shape, dtype, block.memory, block.offset, strides)
    except BaseException:
        if block.shelf is not None:
            block.shelf.put(block)
        raise
    lease(array, n, block)
    return array


def _strides(like: Array, itemsize: int) -> tuple[int, ...]:
    """Return the strides, without gaps, that keep the order of memory of `like`."""
    strides = [0] * like.ndim
    for axis in sorted(range(like.ndim), key=lambda axis: (abs(like.strides[axis]), -axis)):
        strides[axis] = itemsize
        itemsize *= like.shape[axis]
    return tuple(strides)


def _fresh_memory(capacity: int) -> _Memory:
    if books.limit is not None:
        books.make_room(capacity)
    try:
        return _take_from_system(capacity)
    except (MemoryError, OSError, OverflowError):
        trim(0)
    gc.collect()
    drain()
    trim(0)
    try:
        return _take_from_system(capacity)
    except (MemoryError, OSError, OverflowError):
        raise OutOfMemoryError(capacity, take_stock() + pinned(), books.cached, None) from None


def _take_from_system(capacity: int) -> _Memory:
    if capacity >= _HUGE:
        try:
            return _mapped(capacity)
        except OSError:
            pass  # a process may have so many maps only
    # Not an ndarray: views would take it for their base.
    memory = bytearray(capacity + _ALIGNMENT + _FARTHEST)
    return memory, -_address(memory) % _ALIGNMENT + _next_place()


def _mapped(capacity: int) -> _Memory:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return _map(capacity + _FARTHEST), _next_place()
    # What is mapped beyond the block is never touched, and takes no memory.
    memory = _map(capacity + _HUGE + _FARTHEST)
    offset = -_address(memory) % _HUGE
    # The rest is small pages, lest the system count more than the block.
    memory.madvise(mmap.MADV_HUGEPAGE, offset, capacity & -_HUGE)
    return memory, offset + _next_place()


def _map(nbytes: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_ANONYMOUS"):
        # Private: what is shared, a forked child would write to as well.
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, nbytes)


def _address(memory: bytearray | mmap.mmap) -> int:
    address: int = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    return address


def trim(to_bytes: int) -> int:
    """Give blocks back to the system until at most `to_bytes` are cached; return how many bytes went.

    Those go first for whose size nobody has asked for the longest time.
    """
    gone = 0
    while books.cached > to_bytes:
        full = [shelf for shelf in list(pool.shelves.values()) if shelf.blocks]
        if not full:
            break
        shelf = min(full, key=_last_use)
        try:
            forget(shelf.blocks.pop(0))
        except IndexError:
            continue  # another thread took it
        books.cached -= shelf.capacity
        gone += shelf.capacity
    if books.limit is not None:
        set_floor()
    return gone


def trim_to_limit() -> None:
    """Let go of what is over the limit, as far as it is cached."""
    if books.limit is not None:
        trim(max(books.limit - take_stock() - pinned(), 0))


def _last_use(shelf: Shelf) -> int:
    return shelf.last_use


def _make_room(asked: int) -> None:
    make_room(asked, trim)


books.make_room = _make_room


def hold_of(array: Array) -> Size | None:
    """Count a new array, and return what its tensor holds for as long as it does.

    That is the size of a small one; None for a large one, which has a lease, and for borrowed memory.
    """
    owner = array
    base = owner.base
    while isinstance(base, _ndarray):
        owner, base = base, base.base
    if base is not None:
        return None  # from the pool, which has leased it, or borrowed
    n = owner.nbytes
    if n < pool.min_pooled and (n in sizes or offer_size(n)):
        hold = sizes[n]
        left = hold.left = hold.left - 1
        if left < 0:
            charge(n)
        return hold
    if block_of(owner) is None:
        drain()
        is_small = n < pool.min_pooled
        if is_small:
            books.leased_small += 1
        else:
            books.miss += 1
        block = Block(None, 0, None, is_small=is_small)
        blocks.add(block)
        lease(owner, n, block)
    return None


def pool_from(nbytes: int) -> None:
    """Let the pool serve arrays of `nbytes` and more."""
    pool.min_pooled = nbytes
    withdraw_sizes(nbytes)


def cached() -> dict[int, int]:
    """Return how many blocks of each capacity wait for the next array."""
    return {shelf.capacity: len(shelf.blocks) for shelf in list(pool.shelves.values()) if shelf.blocks}
