"""The records of tracking: what is known of each disposable, and by whom it is counted."""

from __future__ import annotations

import time
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from scopes.core.foreign import footprint_of, library_of, revived
from scopes.tracking.paths import (
    Number,
    Place,
    end_once,
    give_memory,
    hold_memory,
    let_go_of_memory,
    place_of,
)
from scopes.tracking.sites import Site, site_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from scopes.core.scope import DisposeScope


class Record(ref[Any]):
    """What is known of one disposable that is alive, or at least referred to."""

    __slots__ = (
        "buffer",
        "closings",
        "created_at",
        "ended",
        "ended_at",
        "first",
        "foreign",
        "graph_site",
        "key",
        "kind",
        "nbytes",
        "place",
        "serial",
        "shares",
        "site",
        "thread",
    )

    # Its id, and its number among all that were tracked.
    key: int
    serial: int
    # The name of its type.
    kind: str
    site: Site
    # The line that gave it a graph in place, ``total += loss``; None where it has the graph it was made with.
    graph_site: Site | None
    # The scopes that were open around it, and how many had ended before.
    place: Place
    closings: int
    # Where memory of other libraries is summed up; None for memory of ours.
    foreign: Place | None
    # What tells its memory from other memory, and the bytes of it, when it was created, shared or not.
    buffer: int
    nbytes: int
    # The record by which this memory is counted, None for this one; and how many share it.
    first: Record | None
    shares: int
    # Of ``time.perf_counter_ns``.
    created_at: int
    # The thread's ident.
    thread: int
    # How it ended while somebody still referred to it, and where; None before.
    ended: str | None
    ended_at: Site | None

    if not TYPE_CHECKING:  # whose types are those of `ref`
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    def __call__(self) -> Any:
        """Return the disposable, or None when it has gone."""
        x = super().__call__()
        return x if x is None or self.foreign is None else revived(x)

    @property
    def scope(self) -> tuple[str, ...]:
        """The names of the scopes that were open around it, the outermost first."""
        return self.place.path


class Listener(Protocol):
    """Is told what happens while tracking is on, at once and on the thread where it does.

    The collector may find an end at any moment, inside any call, this listener's own too: a lock that it
    takes must be one that its thread may take again.
    """

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
        self._serials = Number()
        self._closings = Number()
        self.listeners: tuple[Listener, ...] = ()
        # The place outside all scopes.
        self.root: Place = Place((), None)
        # The memory of other libraries' objects.
        self.foreign: Place = Place((), None)
        self.began_at: int = time.perf_counter_ns()
        # By the id of an open scope: its place, and since when it is open.
        self.place_by_scope: dict[int, Place] = {}
        self._opened_at: dict[int, int] = {}
        # By what tells memory from other memory: the record by which it is counted.
        self._buffers: dict[int, Record] = {}
        self._when_gone: Callable[[Record], None] | None = self._gone

    @property
    def serial(self) -> int:
        """How many records there were."""
        return self._serials.last

    @property
    def closings(self) -> int:
        """How many scopes have ended."""
        return self._closings.last

    @property
    def rounds(self) -> dict[tuple[str, ...], int]:
        """How often a scope of each path has ended."""
        return {place.path: place.rounds for place in self.places() if place.rounds}

    def places(self) -> list[Place]:
        """Return all places, each after the one around it."""
        found = [self.root]
        for place in found:
            found += list(place.inner.values())
        return found

    def elapsed(self) -> int:
        """Return how long tracking has been on, in nanoseconds."""
        return time.perf_counter_ns() - self.began_at

    def created(self, x: Any, scope: DisposeScope | None) -> Record:
        """Begin a record of `x`."""
        buffer, nbytes = footprint_of(x)
        record = Record(x, self._when_gone)
        key = record.key = id(x)
        record.serial = self._serials.next()
        library = library_of(x)
        name = type(x).__name__
        record.kind = name if library is None else f"{library}.{name}"
        record.foreign = None if library is None else self.foreign
        record.site = site_here(self.depth)
        record.graph_site = None
        record.place = self.root if scope is None else self._place_of(scope)
        record.closings = self.closings
        record.buffer = buffer
        record.nbytes = nbytes
        record.first = None
        record.shares = 1
        hold_memory(record, self._buffers)
        record.created_at = time.perf_counter_ns()
        record.thread = get_ident()
        record.ended = None
        record.ended_at = None
        try:
            for listener in self.listeners:
                listener.created(record)
        finally:
            # Last: another thread that disposes `x` meanwhile finds nothing to end, so no listener hears of
            # an end before the creation. The caller looks afterwards whether that was so.
            self.records[key] = record
        return record

    def _place_of(self, scope: DisposeScope) -> Place:
        key = id(scope)
        place = self.place_by_scope.get(key)
        if place is None:
            place = self.place_by_scope[key] = place_of(scope, self.root)
            if scope.is_disposed:  # on another thread, which may have forgotten it before
                self.place_by_scope.pop(key, None)
        return place

    def ended(self, x: Any, how: str) -> None:
        """Note that `x`, to which somebody still refers, is empty from now on."""
        record = self.records.get(id(x))
        if record is None or record.ended is not None:
            return
        if not end_once(record, how, site_here(self.depth), self._buffers):
            return  # another thread was quicker
        for listener in self.listeners:
            listener.ended(record, how)

    def given_memory(self, x: Any, buffer: int, nbytes: int) -> None:
        """Note the memory of `x`, which had none when it was created."""
        record = self.records.get(id(x))
        if record is not None and record() is x:
            give_memory(record, buffer, nbytes, self._buffers)

    def written(self, x: Any) -> None:
        """Note that a line has given `x` a graph in place."""
        record = self.records.get(id(x))
        if record is not None:
            record.graph_site = site_here(self.depth)

    def _gone(self, record: Record) -> None:
        key = record.key
        if self.records.get(key) is record:
            del self.records[key]
        if record.ended is None:
            let_go_of_memory(record, self._buffers)
            for listener in self.listeners:
                listener.ended(record, LAST_REFERENCE)

    def opened(self, scope: DisposeScope) -> None:
        """Note that a scope was opened."""
        key = id(scope)
        outer = scope._outer
        around = (
            self.root if outer is None else self.place_by_scope.get(id(outer)) or place_of(outer, self.root)
        )
        place = self.place_by_scope[key] = around.inside(scope.name)
        self._opened_at[key] = time.perf_counter_ns()
        for listener in self.listeners:
            listener.opened(scope, place.path)

    def closed(self, scope: DisposeScope) -> None:
        """Note that a scope has ended."""
        key = id(scope)
        place = self.place_by_scope.pop(key, None) or place_of(scope, self.root)
        opened_at = self._opened_at.pop(key, self.began_at)
        place.count_round(time.perf_counter_ns() - opened_at)
        self._closings.next()
        for listener in self.listeners:
            listener.closed(scope, place.path)

    def close(self) -> None:
        """Let go of everything."""
        self.listeners = ()
        self._when_gone = None  # a cycle
        self.records.clear()
        self._buffers.clear()

    def alive(self) -> list[tuple[Record, Any]]:
        """Return the records of what is alive and not empty, oldest first, with what they are of."""
        found = []
        for record in list(self.records.values()):
            x = record()
            if x is not None and record.ended is None and not _is_empty(x):
                found.append((record, x))
        found.sort(key=serial_of)
        return found


def serial_of(item: tuple[Record, Any]) -> int:
    """Return when it was created, as a number."""
    return item[0].serial


def _is_empty(x: Any) -> bool:
    return getattr(x, "is_invalid", False) is True
