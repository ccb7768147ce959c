"""Listeners of tracking: the history of a run, timelines, limits of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope
    from scopes.tracking.records import Record


class Listener(Protocol):
    """Interface of objects that receive each event of tracking, on the thread of the event.

    The garbage collector may cause an end inside any call, also inside the listener's own calls. So a lock of
    a listener must be reentrant.
    """

    def created(self, record: Record) -> None:
        """Receive a new disposable."""

    def ended(self, record: Record, how: str) -> None:
        """Receive an end: by disposal, or because the last reference was deleted."""

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Receive a new scope."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Receive the end of a scope, after its members are disposed."""
