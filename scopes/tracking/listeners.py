"""Listeners of tracking: the history of a run, timelines, limits of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope
    from scopes.tracking.records import Record


class Listener(Protocol):
    """Gets each event while tracking is on, at once and on the thread of the event.

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
