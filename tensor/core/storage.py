"""Storage: the memory that a tensor, its views and aliases share, and copy-on-write between storages.

A tensor that has no view or alias has no `Storage`; its array is the memory. Whoever wants the *values* of
the moment (a clone, a node of the tape) holds the tensor's array object itself; whoever wants the *memory*
(a view, an alias, an exported array) holds another array over the same block. So reference counts tell, at
the moment of a write, who is there:

- somebody else holds the array object, or arrays over the block that are none of the storage's members:
  they wanted values, so the writer copies first (``writable``);
- unless the storage is lent (an exported array or a borrowed block): then outsiders see every write, and
  no values are shared lazily (``claim`` copies at once).
"""

from __future__ import annotations

from itertools import count
from sys import getrefcount
from typing import Any, Protocol
from weakref import ref

import numpy as np

from tensor.core.members import FEW, Members
from tensor.kernels.placing import copy
from tensor.memory import pool
from tensor.memory.books import Books, Size, owner_of
from tensor.memory.holders import kinds_that_hold
from tensor.memory.leases import books, forget_export, note_export

Array = np.ndarray[Any, np.dtype[Any]]


# What counts a small buffer as live: the size itself for one tensor alone; a tuple of it, one and the same
# for all of them, for several sharers. None where the buffer is large, and has a lease, or is borrowed.
Hold = Size | tuple[Size | None] | None


class Holder(Protocol):
    """A tensor or a handle: what holds an array."""

    _array: Array | None
    _seat: Seat | None
    _hold: Hold


class Seat:
    """A place in a storage. A tensor and its views have one and the same."""

    __slots__ = ("family", "storage")

    def __init__(self, storage: Storage, family: int = 0) -> None:
        self.storage = storage
        # Other than 0 for those that came by detach(): gradient history stays in the family.
        self.family = family


# Numbers for families, none twice.
new_family = count(1).__next__


class Storage(Members):
    """The block under several arrays, and the tensors and handles that hold them."""

    __slots__ = ("__weakref__", "block", "borrowed", "lent")

    def __init__(self, block: Array) -> None:
        self.members = []
        self.most = FEW
        self.block = block
        # Outsiders may look at the block and see writes; `borrowed`: it is theirs for good.
        self.lent = False
        self.borrowed: Borrowed | None = None

    def is_shared(self) -> bool:
        """Tell whether more than one tensor is on it."""
        return sum(1 for _ in self.holders()) > 1


kinds_that_hold.append(Storage)


class Borrowed:
    """Counts somebody else's memory for as long as a storage lies over it."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        books.external += nbytes

    # `books` is bound here: when the interpreter ends, the names of modules may be gone.
    def __del__(self, books: Books = books) -> None:
        books.external -= self.nbytes


def _references_to_array(x: Holder) -> int:
    return getrefcount(x._array)


def _references_to_base(x: Holder) -> int:
    return getrefcount(x._array.base)  # type: ignore[union-attr]  # callers hold an array


def _references_to_block(storage: Storage) -> int:
    return getrefcount(storage.block)


class _Probe:
    __slots__ = ("__weakref__", "_array", "_hold", "_seat")

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array
        self._seat: Seat | None = None
        self._hold: Hold = None


# What an interpreter counts when nobody else is there; versions differ in how they count their own.
_SOLE_ARRAY = _references_to_array(_Probe(np.empty(1)))
_SOLE_BASE = _references_to_base(_Probe(np.empty(2)[1:]))
_SOLE_BLOCK = _references_to_block(Storage(np.empty(1)))


def share(x: Holder) -> Storage:
    """Return the storage of `x`, made when this is its first view, alias or export."""
    return seat_of(x).storage


def seat_of(x: Holder) -> Seat:
    """Return the place of `x` in its storage, made with it."""
    if x._seat is not None:
        return x._seat
    array = x._array
    if array is None:
        raise ValueError("an empty tensor has no storage")
    storage = Storage(array if array.base.__class__ is not np.ndarray else owner_of(array))
    # The array itself must not be the block, or its references could not be told from the block's.
    x._array = array.view()
    seat = x._seat = Seat(storage)
    storage.members.append(ref(x))
    return seat


def hold_under(x: Holder) -> Hold:
    """Return the hold of `x`, which a donated tensor keeps elsewhere."""
    hold = x._hold
    return getattr(x, "_kept", None) if hold is None else hold


def shared_hold(x: Holder) -> Hold:
    """Return the hold of `x` for another holder of the same buffer."""
    hold = x._hold
    if hold is None:
        hold = getattr(x, "_kept", None)
    # Without a call: two threads must not make two of it.
    if hold.__class__ is Size:
        hold = x._hold = (hold,)
    return hold


def join(storage: Storage, x: Holder, family: int = 0) -> None:
    """Make `x`, whose array lies over the storage's block, a member. It has not been one before."""
    x._seat = Seat(storage, family)
    storage.enter(x)


def leave(x: Holder) -> None:
    """Take `x` off the storage that it is on, if any."""
    x._seat = None


def family_of(x: Holder) -> int:
    """Return the family of `x`: tensors that share memory and gradient history."""
    return 0 if x._seat is None else x._seat.family


def relatives(x: Holder) -> list[Holder]:
    """Return the other members of the family of `x` that are alive."""
    seat = x._seat
    if seat is None:
        return []
    return [
        holder for holder in seat.storage.holders() if holder is not x and family_of(holder) == seat.family
    ]


def claim(x: Holder) -> Array:
    """Return an array with the values that `x` has now, whatever is written later. O(1) unless lent."""
    return claim_and_hold(x)[0]


def claim_and_hold(x: Holder) -> tuple[Array, Hold]:
    """Return what ``claim`` does, and what counts it as live memory."""
    storage = None if x._seat is None else x._seat.storage
    array = x._array
    if array is None:
        raise ValueError("an empty tensor has no values")
    if storage is not None and storage.lent:
        # Who holds the array itself is an op that is at work: values of lent memory are shared with nobody.
        if storage.borrowed or _is_seen(storage):
            return _copied(array)
        storage.lent = False
        forget_export(storage.block)
    return array, shared_hold(x)


def _copied(array: Array) -> tuple[Array, Hold]:
    new = copy(array)
    return new, pool.hold_of(new)


def claim_for_tensor(x: Holder) -> tuple[Array, Hold]:
    """Return what ``claim_and_hold`` does, for another tensor to write to: an expanded view is laid out."""
    array, hold = claim_and_hold(x)
    # Each element needs a place of its own before a view of the new tensor can write to it.
    return _copied(array) if array.base is not None and _is_expanded(array) else (array, hold)


def lend(x: Holder) -> Array:
    """Return a new array over the memory of `x`, for outsiders: they and `x` see each other's writes."""
    storage = share(x)
    if not storage.lent:
        if _has_outsiders(storage):
            _separate(storage)
        storage.lent = True
        shared_hold(x)
        note_export(storage.block, storage)
    array = x._array.view()  # type: ignore[union-attr]  # share() has seen the array
    if _is_expanded(array):
        array.flags.writeable = False  # as NumPy has it: one write would show in several places
    return array


def writable(x: Holder) -> Array:
    """Return the array of `x` for writing; copies first when somebody shares its values.

    The caller must not hold the array of `x` in a variable of its own: it would count as somebody.
    """
    if x._seat is None:
        if not _is_sole(x):
            x._array, x._hold = _copied(x._array)  # type: ignore[arg-type]  # callers hold an array
    elif not _is_alone_in_storage(x, x._seat.storage):
        storage = x._seat.storage
        _require_one_place_per_element(x)
        if not x._array.flags.writeable or (not storage.lent and _has_outsiders(storage)):  # type: ignore[union-attr]
            _separate(storage)
    return x._array  # type: ignore[return-value]  # callers hold an array


def is_unshared(x: Holder) -> bool:
    """Tell whether `x` alone looks at its memory, all of it: nobody would see a write."""
    seat = x._seat
    if seat is None:
        if not _is_sole(x):
            return False
        nbytes = owner_of(x._array).nbytes  # type: ignore[arg-type]  # _is_sole() has seen it
    else:
        storage = seat.storage
        if storage.borrowed or storage.is_shared() or _has_outsiders(storage):
            return False
        if storage.lent:  # to somebody who is gone
            storage.lent = False
            forget_export(storage.block)
        nbytes = storage.block.nbytes
    flags = x._array.flags  # type: ignore[union-attr]  # the holder of its seat has one
    return x._array.nbytes == nbytes and flags.forc and flags.writeable  # type: ignore[union-attr]


def _is_sole(x: Holder) -> bool:
    if _references_to_array(x) != _SOLE_ARRAY:
        return False
    array = x._array
    if array is None or not array.flags.writeable:
        return False
    owner = array.base
    if owner.__class__ is not np.ndarray:
        return True
    owner = owner_of(array)
    if array.base is not owner or _references_to_base(x) != _SOLE_BASE + 1:  # `owner` refers to it too
        return False
    return not _is_expanded(array)


def _is_alone_in_storage(x: Holder, storage: Storage) -> bool:
    """Tell whether `x` is the one member, not lent, and its array the only one over the block.

    So it is with a parameter whose values were once asked for: 0.7 us in place of 2.9.
    """
    if len(storage.members) > 1:
        storage.look_through()
    if len(storage.members) != 1 or storage.lent or _references_to_array(x) != _SOLE_ARRAY:
        return False
    array = x._array
    if array is None or array.base is not storage.block or not array.flags.writeable:
        return False
    return _references_to_block(storage) == _SOLE_BLOCK + 1 and 0 not in array.strides


def _has_outsiders(storage: Storage) -> bool:
    return any(_references_to_array(holder) != _SOLE_ARRAY for holder in storage.holders()) or _is_seen(
        storage
    )


def _is_seen(storage: Storage) -> bool:
    """Tell whether arrays lie over the block that are no member's."""
    inside = 0
    for holder in storage.holders():
        inside += holder._array.base is storage.block
    return _references_to_block(storage) != _SOLE_BLOCK + inside


def _is_expanded(array: Array) -> bool:
    # Strides of an array without elements mean nothing, and NumPy makes them 0.
    if 0 not in array.strides:
        return False
    return array.size > 0 and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))


def _require_one_place_per_element(x: Holder) -> None:
    array = x._array
    if array is not None and _is_expanded(array):
        raise RuntimeError(
            f"can't write to this expanded view of shape {array.shape}: several of its elements are one "
            "place in "
            "memory. Write to x.clone() instead, or to the tensor that was expanded"
        )


def _separate(storage: Storage) -> None:
    """Copy the block for this storage's members; whoever else looked at it keeps the old one."""
    holders = list(storage.holders())
    old = storage.block
    if len(holders) == 1:
        (holder,) = holders
        storage.block, holder._hold = _copied(holder._array)
        holder._array = storage.block.view()
    else:
        start = old.__array_interface__["data"][0]
        block = pool.empty((old.nbytes,), np.uint8)
        hold = pool.hold_of(block)
        shared: Hold = None if hold is None else (hold,)
        del hold
        # Byte for byte, so that each member finds its elements at the same offsets.
        np.ndarray(old.shape, old.dtype, block, strides=old.strides)[...] = old
        for holder in holders:
            view = holder._array
            if view is None:
                continue
            offset = view.__array_interface__["data"][0] - start
            holder._array = np.ndarray(view.shape, view.dtype, block, offset, view.strides)
            holder._hold = shared
        storage.block = block
    storage.lent = False
    storage.borrowed = None
