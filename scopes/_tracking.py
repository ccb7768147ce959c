"""Tracking: which of the user's lines created each disposable, in which scope, and how and where it ended.

Off, it costs nothing: nobody is asked. On, each new disposable has a `Record` here, which knows it by a weak
reference; packages that make disposables are told when tracking begins and ends (``when_tracking_changes``),
and say ``note_created`` and ``note_ended`` while it is on.
"""

from __future__ import annotations

import os
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import ref

from scopes._sites import Site, site_here

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from scopes._scope import DisposeScope


class Record(ref[Any]):
    """What is known of one disposable that is alive, or at least referred to."""

    __slots__ = (
        "created_at",
        "ended",
        "ended_at",
        "key",
        "kind",
        "nbytes",
        "scope",
        "serial",
        "site",
        "thread",
    )

    # Its id, and its number among all that were tracked.
    key: int
    serial: int
    # The name of its type.
    kind: str
    site: Site
    # The names of the scopes that were open around it, the outermost first.
    scope: tuple[str, ...]
    # The bytes of its memory when it was created, shared or not.
    nbytes: int
    # Of ``time.perf_counter_ns``.
    created_at: int
    # The thread's ident.
    thread: int
    # How it ended while somebody still referred to it, and where; None before.
    ended: str | None
    ended_at: Site | None

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Listener(Protocol):
    """Is told what happens while tracking is on, at once and on the thread where it does."""

    def created(self, record: Record) -> None:
        """Hear of a new disposable."""

    def ended(self, record: Record, how: str) -> None:
        """Hear that it was disposed, or that its last reference has gone."""

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Hear of a scope that was opened."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Hear that a scope has ended, and what it owned is disposed."""


LAST_REFERENCE = "its last reference went"


class Tracker:
    """All records, from when tracking begins until it ends."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        # By the id of what is alive, or empty but referred to.
        self.records: dict[int, Record] = {}
        self.serial = 0
        self._numbers = count(1)
        self.listeners: tuple[Listener, ...] = ()
        # How often a scope of each path has ended.
        self.rounds: dict[tuple[str, ...], int] = {}

    def created(self, x: Any, scope: DisposeScope | None, site: Site | None = None) -> Record:
        """Begin a record."""
        record = Record(x, self._gone)
        record.key = id(x)
        self.serial = record.serial = next(self._numbers)
        record.kind = type(x).__name__
        record.site = site_here(self.depth) if site is None else site
        record.scope = () if scope is None else path_of(scope)
        record.nbytes = _nbytes(x)
        record.created_at = time.perf_counter_ns()
        record.thread = threading.get_ident()
        record.ended = None
        record.ended_at = None
        self.records[record.key] = record
        for listener in self.listeners:
            listener.created(record)
        return record

    def ended(self, x: Any, how: str) -> None:
        """Note that `x`, to which somebody still refers, is empty from now on."""
        record = self.records.get(id(x))
        if record is None or record.ended is not None:
            return
        record.ended = how
        record.ended_at = site_here(self.depth)
        for listener in self.listeners:
            listener.ended(record, how)

    def _gone(self, record: Record) -> None:
        if self.records.get(record.key) is record:
            del self.records[record.key]
        if record.ended is None:
            for listener in self.listeners:
                listener.ended(record, LAST_REFERENCE)

    def opened(self, scope: DisposeScope) -> None:
        """Note that a scope was opened."""
        if self.listeners:
            path = path_of(scope)
            for listener in self.listeners:
                listener.opened(scope, path)

    def closed(self, scope: DisposeScope) -> None:
        """Note that a scope has ended."""
        path = path_of(scope)
        self.rounds[path] = self.rounds.get(path, 0) + 1
        for listener in self.listeners:
            listener.closed(scope, path)

    def alive(self) -> list[tuple[Record, Any]]:
        """Return the records of what is alive and not empty, oldest first, with what they are of."""
        found = []
        for record in list(self.records.values()):
            x = record()
            if x is not None and record.ended is None and not getattr(x, "is_invalid", False):
                found.append((record, x))
        found.sort(key=_serial_of)
        return found


def _serial_of(item: tuple[Record, Any]) -> int:
    return item[0].serial


def _nbytes(x: Any) -> int:
    footprint = getattr(x, "_footprint", None)
    return 0 if footprint is None else int(footprint()[1])


_UNNAMED = "(unnamed)"


def path_of(scope: DisposeScope) -> tuple[str, ...]:
    """Return the names of `scope` and those around it, the outermost first."""
    names: list[str] = []
    at: DisposeScope | None = scope
    while at is not None:
        names.append(_UNNAMED if at.name is None else at.name)
        at = at._outer
    names.reverse()
    return tuple(names)


class _Current:
    """The tracker while tracking is on."""

    __slots__ = ("open_blocks", "tracker")

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        self.open_blocks = 0


current = _Current()
_lock = threading.RLock()
_changes: list[Callable[[bool], object]] = []


def when_tracking_changes(switch: Callable[[bool], object]) -> None:
    """Call ``switch(True)`` when tracking begins, now if it is on, and ``switch(False)`` when it ends."""
    with _lock:
        _changes.append(switch)
        if current.tracker is not None:
            switch(True)


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
    variable ``DISPOSESCOPE_TRACK=1``. See ``leaks``. An op costs some microseconds more meanwhile; otherwise
    tracking costs nothing.

    Parameters
    ----------
    depth
        How many of the user's lines are noted for each: the innermost, who called it, and so on.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     kept = [tensor.ones((250,)) for _ in range(4)]
    ...     row = scopes.leaks().rows[0]
    >>> row.count, row.nbytes
    (4, 4000)
    """

    def __init__(self, depth: int = 1) -> None:
        if depth < 1:
            raise ValueError(f"track() notes 1 line or more, not {depth!r}: write track(depth=3)")
        self.depth = depth

    def __enter__(self) -> Self:
        begin(self.depth)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end()


def begin(depth: int = 1) -> Tracker:
    """Switch tracking on, or open one more block of it; the deepest wish for lines holds."""
    with _lock:
        current.open_blocks += 1
        tracker = current.tracker
        if tracker is None:
            tracker = current.tracker = Tracker(depth)
            for switch in _changes:
                switch(True)
        tracker.depth = max(tracker.depth, depth)
        return tracker


def end() -> None:
    """Close one block of tracking; with the last one the records go."""
    with _lock:
        current.open_blocks -= 1
        if current.open_blocks == 0:
            current.tracker = None
            for switch in _changes:
                switch(False)


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


if os.environ.get("DISPOSESCOPE_TRACK", "") not in ("", "0"):
    begin(int(os.environ.get("DISPOSESCOPE_TRACK_DEPTH", "1")))
