"""Tracking: which of the user's lines created each disposable, in which scope, and how and where it ended.

Off, it costs nothing. On, `scopes.core` tells the tracker of births, ends and scopes, and
each new disposable has a `Record` there, which knows it by a weak reference. ``note_created`` and
``note_ended`` are for what is no `Disposable`, and for what ends without being disposed.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

from scopes.core.disposable import set_observer
from scopes.core.guard import Guard
from scopes.tracking.records import LAST_REFERENCE as LAST_REFERENCE
from scopes.tracking.records import Record, Tracker

if TYPE_CHECKING:
    from types import TracebackType

    from scopes.core.scope import DisposeScope


class _Current:
    """The tracker while tracking is on."""

    __slots__ = ("open_blocks", "tracker")

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        self.open_blocks: int = 0


current: Final = _Current()
# One thread at a time may start or end tracking, or change the listeners.
guard: Final = Guard()


def note_created(x: object, scope: DisposeScope | None) -> None:
    """Begin a record of the new disposable `x`, if tracking is on and has none of it."""
    tracker = current.tracker
    if tracker is not None and id(x) not in tracker.records:
        tracker.created(x, scope)


def note_ended(x: object, how: str) -> None:
    """Say that `x` is empty from now on, if tracking is on."""
    tracker = current.tracker
    if tracker is not None:
        tracker.ended(x, how)


def note_memory(x: object, buffer: int, nbytes: int) -> None:
    """Say what the memory of `x` is, which had none when it was created, if tracking is on."""
    tracker = current.tracker
    if tracker is not None:
        tracker.given_memory(x, buffer, nbytes)


def note_written(x: object) -> None:
    """Say that an operation in place has given `x` a graph, if tracking is on: ``total += loss``."""
    tracker = current.tracker
    if tracker is not None:
        tracker.written(x)


def note_made_for(owner: object, x: object) -> None:
    """Put the new `x` to the line that created `owner`: an optimizer's state is the optimizer's."""
    of_owner, record = record_of(owner), record_of(x)
    if of_owner is not None and record is not None:
        record.site = of_owner.site


def record_of(x: object) -> Record | None:
    """Return what is known of `x`."""
    tracker = current.tracker
    record = None if tracker is None else tracker.records.get(id(x))
    return record if record is not None and record() is x else None


class track:  # noqa: N801  # used as a function: `with track():`
    """Note for each new disposable which line created it, in which scope, and how and where it ended.

    On for a ``with`` block, and while any of several is open; or for the whole program, with the environment
    variable ``DISPOSESCOPE_TRACK=1``. See ``leaks``. An op costs about a microsecond more
    meanwhile; otherwise tracking costs nothing.

    Parameters
    ----------
    depth
        How many of the user's lines are noted for each: the innermost, its caller, and so on.
    every
        After so many seconds, and again and again while the block is open, print the report to the standard
        error stream: what is alive, who holds it, and what has grown all along. It comes when something is
        created next, on the thread that does. None: never.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     kept = [tensor.ones((250,)) for _ in range(4)]
    ...     row = scopes.leaks().rows[0]
    >>> row.count, row.nbytes
    (4, 4000)
    """

    def __init__(self, depth: int = 1, *, every: float | None = None) -> None:
        if depth < 1:
            raise ValueError(f"track() notes 1 line or more, not {depth!r}: write track(depth=3)")
        if every is not None and not every > 0:
            raise ValueError(f"track() prints every so many seconds, not {every!r}: write track(every=60)")
        self.every = every
        self._history: Any = None
        self.depth = depth

    def __enter__(self) -> Self:
        begin(self.depth)
        if self.every is not None:
            # Reports take long to load, and most programs ask for none.
            self._history = import_module("scopes.tracking.history").History(self.every)
            self._history.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        history, self._history = self._history, None
        if history is not None:
            history.end()
        end()


def begin(depth: int = 1) -> Tracker:
    """Switch tracking on, or open one more block of it; the deepest wish for lines holds."""
    return guard.run(_begin, depth)


def _begin(depth: int) -> Tracker:
    tracker = current.tracker
    if tracker is None:
        tracker = current.tracker = Tracker(depth)
        set_observer(tracker)
    tracker.depth = max(tracker.depth, depth)
    current.open_blocks += 1
    return tracker


def end() -> None:
    """Close one block of tracking; with the last one the records go."""
    guard.run(_end)


def _end() -> None:
    current.open_blocks -= 1
    tracker = current.tracker
    if current.open_blocks == 0 and tracker is not None:
        current.tracker = None
        set_observer(None)
        tracker.close()


def is_tracking() -> bool:
    """Tell whether tracking is on.

    Examples
    --------
    >>> import scopes
    >>> with scopes.track():
    ...     scopes.is_tracking()
    True
    """
    return current.tracker is not None


def _begin_if_the_environment_says_so() -> None:
    if os.environ.get("DISPOSESCOPE_TRACK", "") in ("", "0"):
        return
    told = os.environ.get("DISPOSESCOPE_TRACK_DEPTH", "1")
    if not told.isdecimal() or int(told) < 1:
        raise ValueError(
            f"DISPOSESCOPE_TRACK_DEPTH={told} does not say how many of your lines are to be noted for each "
            "tensor: write DISPOSESCOPE_TRACK_DEPTH=3, or leave it out"
        )
    begin(int(told))


# Names the folder that children of a program under ``run`` write their reports to.
CHILDREN = "DISPOSESCOPE_CHILDREN"


_begin_if_the_environment_says_so()
