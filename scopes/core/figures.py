"""Statistics of disposables at one moment."""

from __future__ import annotations

from dataclasses import dataclass, fields

from scopes._shared.html import figures_to_html
from scopes._shared.naming import set_module


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class DisposeStatistics:
    """Statistics at one moment, which you can add and subtract. ``str`` begins with the live ones.

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
        """The number of objects alive: created minus disposed."""
        created = self.created_outside_scope_count + self.created_in_scope_count
        return created - self.disposed_outside_scope_count - self.disposed_in_scope_count

    def __add__(self, other: DisposeStatistics) -> DisposeStatistics:
        return DisposeStatistics(*(a + b for a, b in zip(self._figures(), other._figures(), strict=True)))

    def __sub__(self, other: DisposeStatistics) -> DisposeStatistics:
        return DisposeStatistics(*(a - b for a, b in zip(self._figures(), other._figures(), strict=True)))

    def __repr__(self) -> str:
        figures = ", ".join(f"{name}={getattr(self, name)}" for name in ("live_count", *FIGURES))
        return f"DisposeStatistics({figures})"

    def _repr_html_(self) -> str:
        return figures_to_html({name: f"{getattr(self, name):,}" for name in ("live_count", *FIGURES)})

    def __str__(self) -> str:
        return "; ".join(f"{name}: {getattr(self, name)}" for name in ("live_count", *FIGURES))

    def _figures(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in FIGURES)


FIGURES = tuple(field.name for field in fields(DisposeStatistics))
