"""Leases of large buffers, and what outsiders see: how the end of either comes to the books.

A lease is a weak reference whose callback is a method of C: nothing of ours runs while memory is let go. The
next allocation or reading finds the lease in `released`, and strikes out what it counted. In the same way
storages over exported blocks are found in `orphaned` when they are gone: what outsiders still see of them is
pinned.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import Any
from weakref import ref

from tensor.memory.books import Array, Block, Books, Lease, Pinned, Seen, block_of

# All of the pool, in use or free; and those that stand for memory of NumPy's, while it is alive.
blocks: set[Block] = set()
released: deque[Lease] = deque()
# Storages over exported blocks, by the ids of those; such storages when they are gone.
seen: dict[int, Seen] = {}
orphaned: deque[Seen] = deque()
pinned_small: set[Pinned] = set()

books = Books()

leave = released.append
_orphan = orphaned.append
_unpin = pinned_small.discard
_nbytes_of = attrgetter("nbytes")


def forget(block: Block) -> None:
    """Let go of a block that is not in use."""
    blocks.discard(block)
    block.lease = None  # which refers to the block


def drain() -> None:
    """Strike out the leases whose arrays are gone, and put their blocks back."""
    while released:
        try:
            gone = released.popleft()
        except IndexError:  # another thread was quicker
            return
        strike(gone.block)


def strike(block: Block) -> None:
    """Count the buffer in `block`, whose array is gone, no longer, and put the block back."""
    n = block.nbytes
    if block.is_pinned:
        block.is_pinned = False
        books.pinned -= n
    else:
        books.lives -= n
        books.room += n
    shelf = block.shelf
    if shelf is None:
        forget(block)
    else:
        shelf.put(block)


def note_export(block: Array, storage: Any) -> None:
    """Remember that outsiders look at `block`, the owner under `storage`: without `storage` it is pinned."""
    leased = block_of(block)
    if block.base is not None and leased is None:
        return  # somebody else's memory
    new = Seen(storage, _orphan)
    new.block = ref(block)
    new.key = id(block)
    new.nbytes = block.nbytes
    seen[new.key] = new


def forget_export(block: Array) -> None:
    """Forget it again: no outsider looks at `block` any more, but others than its storage may."""
    seen.pop(id(block), None)


def pin() -> None:
    """Turn what storages have left to outsiders from live to pinned."""
    while orphaned:
        try:
            gone = orphaned.popleft()
        except IndexError:  # another thread was quicker
            return
        # Another block may have got the id of one that is gone. From here on without a call.
        if gone.key not in seen or seen[gone.key] is not gone:
            continue
        del seen[gone.key]
        block = gone.block()
        if block is None:
            continue
        leased = block_of(block)
        if leased is None:
            small = Pinned(block, _unpin)
            small.nbytes = gone.nbytes
            pinned_small.add(small)
        elif not leased.is_pinned:
            leased.is_pinned = True
            books.lives -= leased.nbytes
            books.pinned += leased.nbytes
            books.room += leased.nbytes
        del block  # else it would live on to the next step


def pinned() -> int:
    """Return the bytes that outsiders alone still see."""
    if released:
        drain()
    if orphaned:
        pin()
    small: int = sum(map(_nbytes_of, list(pinned_small)))
    return books.pinned + small
