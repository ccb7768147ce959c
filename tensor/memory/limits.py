"""The limit of memory, and the error that says who holds it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from scopes.lowlevel import format_bytes
from tensor.memory.accounting import look_at_each, set_floor, take_stock
from tensor.memory.holders import holdings
from tensor.memory.leases import books, pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def _largest_holders() -> Iterator[str]:
    found, unnamed = holdings()
    yield from map(str, found[:5])
    rest = [(holding.count, holding.nbytes) for holding in found[5:]]
    rest += [(count, n * count) for n, count in unnamed.items()]
    count, nbytes = (sum(figures) for figures in zip((0, 0), *rest, strict=True))
    if nbytes:
        yield f"{count} smaller buffer{'s' * (count > 1)}, {format_bytes(nbytes)}"
