"""What was alive when most was: for programs whose functions take with them, at their end, what they held."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scopes.tracking.leaks import LeakReport, leaks

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope
    from scopes.tracking.records import Record

# It looks again when a tenth more is alive, and spends a twentieth of the time on it, after half a second.
_GROWTH = 1.1
_FREE, _PART = 500_000_000, 1 / 20
_LEAST_COUNT, _LEAST_BYTES = 16, 64 * 1024


class HighWater:
    """Listens while tracking is on, and looks at what is alive each time that it has grown by a tenth."""

    def __init__(self) -> None:
        self.report: LeakReport | None = None
        self._count, self._bytes = _LEAST_COUNT, _LEAST_BYTES
        self._alive = self._bytes_alive = 0
        self._began = time.perf_counter_ns()
        self._spent = 0
        self._is_looking = False

    def created(self, record: Record) -> None:
        """Look at what is alive, if it has grown."""
        self._alive += 1
        self._bytes_alive += record.nbytes
        if self._alive <= self._count and self._bytes_alive <= self._bytes:
            return
        began = time.perf_counter_ns()
        allowed = _FREE + (began - self._began) * _PART
        if self._is_looking or self._spent > allowed:
            return
        self._is_looking = True
        try:
            self.report = leaks()
        except (AttributeError, RuntimeError):
            pass  # another thread is about to complete or to change something: the next look will do
        else:
            self._count = max(self._count, int(self._alive * _GROWTH))
            self._bytes = max(self._bytes, int(self._bytes_alive * _GROWTH))
        finally:
            self._is_looking = False
            self._spent += time.perf_counter_ns() - began

    def ended(self, record: Record, _how: str) -> None:
        """Count it no more."""
        self._alive -= 1
        self._bytes_alive -= record.nbytes

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Nothing is to be counted."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Nothing is to be counted."""
