"""The error for a refused allocation, with the largest holders of memory."""

from __future__ import annotations

from collections.abc import Iterator
from threading import local
from typing import Any

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.tracking.tracking import largest_lines
from tensor.memory import allocator
from tensor.memory.holders import holdings


@set_module("tensor")
class OutOfMemoryError(MemoryError):
    """An allocation would exceed the limit, or the system refused it. Nothing has changed.

    Before it is raised, the pool is trimmed and the garbage collector runs.

    Attributes
    ----------
    asked : int
        The requested bytes; 0 if the allocation was not the pool's, so that the size is unknown.
    live : int
        The live bytes, including pinned ones.
    cached : int
        The bytes cached by the pool.
    limit : int or None
        The limit in bytes; None if the system refused.
    holders : tuple of str
        Descriptions of the largest holders of memory. They keep nothing alive.
    """

    def __init__(self, asked: int, live: int, cached: int, limit: int | None) -> None:
        self.asked = asked
        self.live = live
        self.cached = cached
        self.limit = limit
        self.holders: tuple[str, ...] = tuple(_largest_holders())
        taken = f"{format_bytes(live)} live and {format_bytes(cached)} in the pool"
        if limit is None:
            wanted = f"{format_bytes(asked)} more" if asked else "an allocation"
            reason = f"the system does not have enough memory for {wanted}, with {taken}"
        else:
            wanted = f"asked for {format_bytes(asked)} more"
            reason = f"the limit of memory is {format_bytes(limit)}: {wanted}, with {taken}"
            if allocator.is_in_budget():
                reason += (
                    f". The operation needs a budget of at least {format_bytes(live + asked)}, because no "
                    "other memory can be freed now"
                )
        held = f" The largest holders: {'; '.join(self.holders)}." if self.holders else ""
        lines = largest_lines(5)
        if lines:
            held += f" The lines that created most: {'; '.join(lines)}."
        super().__init__(
            f"{reason}.{held} Dispose tensors that are not needed (a scope does so at its end), use smaller "
            "batches, or run inference under no_grad()"
            + ("; or raise the limit" if limit is not None else "")
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self)._of, (self.args[0], self.asked, self.live, self.cached, self.limit, self.holders))

    @classmethod
    def _of(cls, text: str, *figures: Any) -> OutOfMemoryError:
        error = cls.__new__(cls, text)
        error.asked, error.live, error.cached, error.limit, error.holders = figures
        return error


class _Failure(local):
    """The error that prevented a budget from freeing memory for this thread, until it is raised."""

    error: BaseException | None = None


_failure = _Failure()


def note_failure(error: BaseException) -> None:
    """Make the next ``out_of_memory()`` on this thread return `error`."""
    _failure.error = error


def forget_failure() -> None:
    """Undo ``note_failure``."""
    _failure.error = None


def out_of_memory(asked: int = 0) -> BaseException:
    """Return the error for this thread's last refused allocation, or for `asked` bytes if there is none.

    If a budget failed to free memory, for example because the disk is full, return that error.

    Call it after a kernel raised ``MemoryError``, or ``count_small`` returned False. Raise the result ``from
    None``, because NumPy's message does not help the user.
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
        kind = "smaller" if found else "small"
        yield f"{count} {kind} buffer{'s' * (count > 1)}, {format_bytes(nbytes)}"
