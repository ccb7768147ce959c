"""Who holds memory: the buffers that are live or pinned, by kind, and the classes of ours that hold them."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes.lowlevel import format_bytes
from tensor.memory.accounting import small
from tensor.memory.books import array_in, block_of, owner_of
from tensor.memory.leases import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensor.memory.books import Array

# The classes whose objects hold arrays; each module adds its own.
kinds_that_hold: list[type] = []

# Bytes from which on a buffer is named that the pool knows nothing of. To list all of them would take memory,
# where there may be none.
_NAMED = 1 << 14


@dataclass(frozen=True, slots=True)
class Holding:
    """Buffers of one shape and dtype."""

    count: int
    kind: str
    nbytes: int
    by: tuple[str, ...]

    def __str__(self) -> str:
        held_by = f" (held by {', '.join(self.by)})" if self.by else ""
        return f"{self.count} x {self.kind}, {format_bytes(self.nbytes)}{held_by}"


def holdings() -> tuple[list[Holding], dict[int, int]]:
    """Return the buffers that have a name, largest first, and of the others how many there are of each size.

    Of memory that is borrowed nothing is told. The result keeps nothing alive.
    """
    held = _held_by_ours()
    large = [array_in(block) for block in list(blocks) if not block.is_small]
    owners = {id(array): array for array in large if array is not None}
    unnamed = small()
    for key, (array, _) in held.items():
        if key not in owners and unnamed.get(array.nbytes):
            owners[key] = array
            unnamed[array.nbytes] -= 1
    groups: dict[str, list[int]] = {}
    for key, array in owners.items():
        groups.setdefault(_kind_of(array), []).append(key)
    found = [
        Holding(
            len(keys),
            kind,
            sum([owners[key].nbytes for key in keys]),
            tuple(sorted(set().union(*[held[key][1] for key in keys if key in held]))),
        )
        for kind, keys in groups.items()
    ]
    found.sort(key=lambda holding: -holding.nbytes)
    return found, {n: count for n, count in unnamed.items() if n and count > 0}


def _kind_of(owner: Array) -> str:
    block = block_of(owner)
    pinned = ", pinned" if block is not None and block.is_pinned else ""
    return f"{owner.dtype}{list(owner.shape)}{pinned}"


def _held_by_ours() -> dict[int, tuple[Array, set[str]]]:
    """Return arrays that own memory, by their ids, with the names of the classes of ours that hold them."""
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
