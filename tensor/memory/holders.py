"""Report the large buffers in memory, grouped by dtype and shape, and the classes that hold them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from scopes._shared.sizes import format_bytes
from tensor.memory import allocator

# No `from __future__ import annotations` here: named tuples would compile each annotation, which is slow.


class LargeBuffer(NamedTuple):
    """A buffer that is live or pinned."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    is_pinned: bool = False
    #: The names of its holders: ``"Tensor"``, ``"the graph"``.
    by: tuple[str, ...] = ()


class Holding(NamedTuple):
    """A group of buffers with the same shape and dtype."""

    buffer_count: int
    kind: str
    nbytes: int
    by: tuple[str, ...]

    def __str__(self) -> str:
        held_by = f" (held by {', '.join(self.by)})" if self.by else ""
        return f"{self.buffer_count} x {self.kind}, {format_bytes(self.nbytes)}{held_by}"


_listings: list[Callable[[], Iterable[LargeBuffer]]] = []


def list_large_buffers_by(function: Callable[[], Iterable[LargeBuffer]]) -> None:
    """Register `function`, which yields some of the process's buffers, for reports and errors.

    No two functions may yield the same buffer. The function may be called when memory is short, so it should
    iterate over an existing list.
    """
    _listings.append(function)


def holdings() -> tuple[list[Holding], int, int]:
    """Return groups of listed buffers, largest first, and the number and bytes of other buffers.

    External memory is not included. The result keeps no buffer alive.
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
    # Other threads may have created or freed buffers meanwhile.
    return found, max(count, 0), max(nbytes, 0)
