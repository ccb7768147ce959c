"""The error for memory that was refused, which says who holds it."""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING, Any

from scopes.lowlevel import format_bytes
from tensor.memory import allocator
from tensor.memory.holders import holdings

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutOfMemoryError(MemoryError):
    """More memory was asked for than the limit allows, or than the system has. Nothing has changed.

    The pool was trimmed and garbage collected before.

    Attributes
    ----------
    asked : int
        The bytes that were asked for; 0 when it was not the pool that was asked, and nobody knows how many.
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
        self.holders: tuple[str, ...] = tuple(_largest_holders())
        taken = f"{format_bytes(live)} live and {format_bytes(cached)} in the pool"
        if limit is None:
            wanted = format_bytes(asked) if asked else "memory"
            reason = f"the system has no {wanted} more to give, with {taken}"
        else:
            wanted = f"asked for {format_bytes(asked)} more"
            reason = f"the limit of memory is {format_bytes(limit)}: {wanted}, with {taken}"
            if allocator.is_in_budget():
                reason += (
                    f". The operation needs a budget of at least {format_bytes(live + asked)}: nothing more "
                    "can leave memory now"
                )
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


class _Failure(local):
    """Why a budget could not free memory for this thread, until the error for that is raised."""

    error: BaseException | None = None


_failure = _Failure()


def note_failure(error: BaseException) -> None:
    """Let ``out_of_memory`` on this thread return `error`."""
    _failure.error = error


def forget_failure() -> None:
    """Let it return its own."""
    _failure.error = None


def out_of_memory(asked: int = 0) -> BaseException:
    """Return the error for what this thread was refused last; if the allocator knows of nothing, for `asked`.

    In a budget that failed to free memory, such as on a full disk, the error that says so.

    To be raised where a kernel raised ``MemoryError`` or ``count_small`` said no: ``raise out_of_memory()
    from None``, for what NumPy says of it is no help.
    """
    refusal = allocator.take_refusal()
    failure, _failure.error = _failure.error, None
    if failure is not None:
        return failure
    if refusal is None:
        _, live = allocator.live_or_pinned()
        refusal = asked, live, allocator.cached_bytes(), None
    return OutOfMemoryError(*refusal)


def _largest_holders() -> Iterator[str]:
    found, count, nbytes = holdings()
    yield from map(str, found[:5])
    count += sum(holding.buffer_count for holding in found[5:])
    nbytes += sum(holding.nbytes for holding in found[5:])
    if count and nbytes:
        yield f"{count} smaller buffer{'s' * (count > 1)}, {format_bytes(nbytes)}"
