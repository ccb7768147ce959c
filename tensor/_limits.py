"""The limit of memory, and the error that says who holds it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes.lowlevel import format_bytes
from tensor._accounting import look_at_each, set_floor, small, take_stock
from tensor._books import array_in, block_of, owner_of
from tensor._leases import blocks, books, pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tensor._books import Array

# The classes whose objects hold arrays; each module adds its own.
kinds_that_hold: list[type] = []

# By whoever set them; the smallest counts.
_limits: dict[object, int] = {}


def set_limit(who: object, nbytes: int | None) -> None:
    """Let `who` limit memory to `nbytes`; None takes the limit of `who` away."""
    if nbytes is None:
        _limits.pop(who, None)
    else:
        _limits[who] = nbytes
    while True:
        books.version += 1
        version = books.version
        limit = min(list(_limits.values()), default=None)
        if books.version == version:
            books.limit = limit
            break
    set_floor()
    take_stock()


def limit_of(who: object) -> int | None:
    """Return the limit that `who` has set."""
    return _limits.get(who)


def make_room(asked: int, trim: Callable[[int], int]) -> None:
    """See to it that `asked` bytes more stay within the limit: trim the pool, then collect garbage.

    Raises
    ------
    OutOfMemoryError
        When that is not enough.
    """
    for collect in (False, True):
        if collect:
            gc.collect()
        taken = take_stock() + pinned() + asked
        limit = books.limit
        if limit is None or taken + books.cached <= limit:
            return
        trim(max(limit - taken, 0))
        if taken + books.cached <= limit:
            return
    look_at_each()
    # From None: the KeyErrors and IndexErrors on the way here are nobody's business.
    raise OutOfMemoryError(asked, taken - asked, books.cached, limit) from None


class OutOfMemoryError(MemoryError):
    """More memory was asked for than the limit allows, or than the system has. Nothing has changed.

    The pool was trimmed and garbage collected before.

    Attributes
    ----------
    asked : int
        The bytes that were asked for; 0 when memory that NumPy took or many small buffers went over the
        limit.
    live : int
        The bytes that were live, pinned ones included.
    cached : int
        The bytes that were in the pool.
    limit : int or None
        The limit in bytes; None when it was the system that refused.
    holders : tuple of str
        The largest holders of memory, in words. They keep nothing alive.
    """

    def __init__(self, asked: int, live: int, cached: int, limit: int | None) -> None:
        self.asked = asked
        self.live = live
        self.cached = cached
        self.limit = limit
        self.holders = tuple(_largest_holders())
        wanted = f"asked for {format_bytes(asked)} more" if asked else "small buffers grew beyond it"
        taken = f"{format_bytes(live)} live and {format_bytes(cached)} in the pool"
        if limit is None:
            reason = f"the system has no {format_bytes(asked)} more to give, with {taken}"
        else:
            reason = f"the limit of memory is {format_bytes(limit)}: {wanted}, with {taken}"
        held = f" The largest holders: {'; '.join(self.holders)}." if self.holders else ""
        super().__init__(
            f"{reason}.{held} Dispose what is not needed (a scope does at its end), use smaller batches, "
            "run inference under no_grad()" + (" or raise the limit" if limit is not None else "")
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self)._of, (self.args[0], self.asked, self.live, self.cached, self.limit, self.holders))

    @classmethod
    def _of(cls, text: str, *figures: Any) -> OutOfMemoryError:
        error = cls.__new__(cls, text)
        error.asked, error.live, error.cached, error.limit, error.holders = figures
        return error


def holders() -> list[tuple[str, int, int]]:
    """Return the large buffers by shape and dtype: what they are, their bytes, how many; largest first."""
    return [(kind, nbytes, len(arrays)) for kind, nbytes, arrays in _groups()]


def _groups() -> list[tuple[str, int, list[Array]]]:
    groups: dict[str, list[Array]] = {}
    for block in list(blocks):
        array = array_in(block)
        if array is not None and not block.is_small:
            groups.setdefault(_kind_of(array), []).append(array)
    rows = [(kind, sum(array.nbytes for array in arrays), arrays) for kind, arrays in groups.items()]
    rows.sort(key=lambda row: -row[1])
    return rows


def _kind_of(owner: Array) -> str:
    block = block_of(owner)
    pinned = ", pinned" if block is not None and block.is_pinned else ""
    return f"{owner.dtype}{list(owner.shape)}{pinned}"


# Bytes from which on the error tells what a small buffer is and who holds it. To list all of them would take
# memory, when there is none.
_NAMED = 1 << 14


def _largest_holders() -> Iterator[str]:
    held = _held_by_ours()
    owners = {id(array): array for _, _, arrays in _groups() for array in arrays}
    large = set(owners)
    owners.update({key: array for key, (array, _) in held.items() if array.base is None})
    groups: dict[str, list[int]] = {}
    for key, array in owners.items():
        groups.setdefault(_kind_of(array), []).append(key)
    rows = [(sum([owners[key].nbytes for key in keys]), kind, keys) for kind, keys in groups.items()]
    rows.sort(key=lambda row: -row[0])
    counts = small()
    left, nbytes = sum(counts.values()), sum([n * count for n, count in counts.items()])
    for total, kind, keys in rows[:5]:
        names = sorted(set().union(*[held[key][1] for key in keys if key in held]))
        held_by = f" (held by {', '.join(names)})" if names else ""
        yield f"{len(keys)} x {kind}, {format_bytes(total)}{held_by}"
        for key in keys:
            if key not in large:
                left -= 1
                nbytes -= owners[key].nbytes
    if nbytes > 0 and left > 0:
        yield f"{left} small buffer{'s' * (left > 1)}, {format_bytes(nbytes)}"


def _all_that_hold() -> list[Any]:
    """Return all objects of ours that hold arrays."""
    kinds = set(kinds_that_hold)
    for kind in kinds_that_hold:
        kinds.update(_below(kind))
    # An object refers to its class. Not gc.get_objects(): among all objects are tuples that other threads are
    # just making, which must have one reference until they are whole.
    return [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    inner: type[Any]
    for inner in kind.__subclasses__():
        yield inner
        yield from _below(inner)


def _held_by_ours() -> dict[int, tuple[Array, set[str]]]:
    """Return arrays that own memory of ours, by their ids, with the names of our classes that hold them."""
    found: dict[int, tuple[Array, set[str]]] = {}
    borrowed: set[int] = set()
    # Not gc.get_referrers(): it does not see tuples of arrays, in which the graph saves them.
    for thing in _all_that_hold():
        name = type(thing).__name__
        if name == "Storage" and thing.borrowed is not None:
            borrowed.add(id(owner_of(thing.block)))
        for held in gc.get_referents(thing):
            for value in held if type(held) is tuple else (held,):
                if isinstance(value, np.ndarray):
                    owner = owner_of(value)
                    if owner.nbytes >= _NAMED:
                        names = found.setdefault(id(owner), (owner, set()))[1]
                        names.add("the graph" if name == "Node" else name)
    return {key: held for key, held in found.items() if key not in borrowed}
