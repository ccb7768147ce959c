"""Tracking while threads create things in scopes that others end: each is reported once, and none is left."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextvars import copy_context

import pytest

import scopes
from scopes import Disposable, DisposeScope, new_dispose_scope
from scopes.tracking import tracking
from scopes.tracking.records import Record


@pytest.fixture(autouse=True)
def threads_take_turns_quickly() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Lease(Disposable):
    def __init__(self) -> None:
        super().__init__()

    def _release(self) -> None:
        pass


class Hearing:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def created(self, record: Record) -> None:
        self.events.append(("created", record.serial))

    def ended(self, record: Record, how: str) -> None:
        self.events.append(("ended", record.serial))

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        pass

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        self.events.append(("closed", 0))


def make(kept: list[Lease], count: int) -> None:
    while len(kept) < count:
        kept.append(Lease())


def end_scopes_while_others_make(rounds: int) -> None:
    """In each round another thread makes things in this one's scope, which ends meanwhile."""
    for _ in range(rounds):
        kept: list[Lease] = []
        with new_dispose_scope("step") as scope:
            other = threading.Thread(target=copy_context().run, args=(make, kept, 10))
            other.start()
            while not kept:
                pass
            scope.dispose_everything()
        other.join()
        for x in kept:
            x.dispose()


@pytest.mark.parametrize("rounds", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_an_object_that_others_end_during_its_creation_is_created_and_ended_once_in_this_order(
    rounds: int,
) -> None:
    hearing = Hearing()
    with scopes.track():
        tracker = tracking.current.tracker
        assert tracker is not None
        tracker.listeners += (hearing,)
        threads = [threading.Thread(target=end_scopes_while_others_make, args=(rounds,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = 4 * rounds * 10
        assert tracker.serial == made
        assert tracker.closings == 4 * rounds
        assert not [record for record in tracker.records.values() if record.ended is None]
        assert [(place.alive, place.bytes_alive) for place in tracker.places()] == [(0, 0)] * 2
        assert not tracker.alive()
    counts = Counter(hearing.events)
    assert counts.pop(("closed", 0)) == 4 * rounds
    assert counts == dict.fromkeys([(what, n + 1) for what in ("created", "ended") for n in range(made)], 1)
    first: dict[int, str] = {}
    for what, serial in hearing.events:
        if what != "closed":
            first.setdefault(serial, what)
    assert set(first.values()) == {"created"}
