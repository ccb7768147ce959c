"""The figures of disposables at one moment."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class DisposeStatistics:
    """The figures at one moment. Two subtract; ``str`` gives them in TorchSharp's order.

    Examples
    --------
    >>> from scopes import statistics
    >>> before = statistics.snapshot()
    >>> (statistics.snapshot() - before).live_count
    0
    """

    created_outside_scope_count: int = 0
    disposed_outside_scope_count: int = 0
    created_in_scope_count: int = 0
    disposed_in_scope_count: int = 0
    attached_to_scope_count: int = 0
    detached_from_scope_count: int = 0
    finalized_count: int = 0

    @property
    def live_count(self) -> int:
        """All that was created, less all that was disposed."""
        created = self.created_outside_scope_count + self.created_in_scope_count
        return created - self.disposed_outside_scope_count - self.disposed_in_scope_count

    def __add__(self, other: DisposeStatistics) -> DisposeStatistics:
        return DisposeStatistics(*(a + b for a, b in zip(self._figures(), other._figures(), strict=True)))

    def __sub__(self, other: DisposeStatistics) -> DisposeStatistics:
        return DisposeStatistics(*(a - b for a, b in zip(self._figures(), other._figures(), strict=True)))

    def __str__(self) -> str:
        return "; ".join(f"{name}: {getattr(self, name)}" for name in ("live_count", *FIGURES))

    def _figures(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in FIGURES)


FIGURES = tuple(field.name for field in fields(DisposeStatistics))
