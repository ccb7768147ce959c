"""Who holds memory: the large buffers that are live or pinned, by kind, and the classes that hold them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from scopes.lowlevel import format_bytes
from tensor.memory import allocator

# No `annotations` of the future here: as texts each would be compiled for the named tuples.


class Held(NamedTuple):
    """One buffer that is live or pinned."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    is_pinned: bool = False
    #: Names of what holds it: ``"Tensor"``, ``"the graph"``.
    by: tuple[str, ...] = ()


class Holding(NamedTuple):
    """Buffers of one shape and dtype."""

    buffer_count: int
    kind: str
    nbytes: int
    by: tuple[str, ...]

    def __str__(self) -> str:
        held_by = f" (held by {', '.join(self.by)})" if self.by else ""
        return f"{self.buffer_count} x {self.kind}, {format_bytes(self.nbytes)}{held_by}"


_listings: list[Callable[[], Iterable[Held]]] = []


def list_holders_by(function: Callable[[], Iterable[Held]]) -> None:
    """Register `function`, which lists the buffers it knows when a report or an error asks who holds memory.

    It lists each of its buffers once, and none of anybody else's. It is called where memory may be short, so
    it should go through buffers that are listed already.
    """
    _listings.append(function)


def holdings() -> tuple[list[Holding], int, int]:
    """Return the buffers that have a name, largest first; of the others their number and their bytes.

    Borrowed memory is left out. The result keeps nothing alive.
    """
    groups: dict[str, list[int]] = {}
    holders: dict[str, set[str]] = {}
    count, nbytes = allocator.live_or_pinned()
    for listing in _listings:
        for held in listing():
            kind = f"{held.dtype}{list(held.shape)}{', pinned' if held.is_pinned else ''}"
            groups.setdefault(kind, []).append(held.nbytes)
            holders.setdefault(kind, set()).update(held.by)
            count -= 1
            nbytes -= held.nbytes
    found = [
        Holding(len(sizes), kind, sum(sizes), tuple(sorted(holders[kind]))) for kind, sizes in groups.items()
    ]
    found.sort(key=lambda holding: -holding.nbytes)
    # Other threads may have made or freed some meanwhile.
    return found, max(count, 0), max(nbytes, 0)
