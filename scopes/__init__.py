"""Deterministic lifetimes: scopes that own what is created in them, and exact statistics."""

from scopes import lowlevel
from scopes._containers import Disposable
from scopes._current import current_dispose_scope
from scopes._disposing import disposing
from scopes._errors import ScopeDisposedError
from scopes._figures import DisposeStatistics
from scopes._scope import DisposeScope, dispose, new_dispose_scope
from scopes._statistics import Statistics, StatisticsView, statistics

__all__ = [
    "Disposable",
    "DisposeScope",
    "DisposeStatistics",
    "ScopeDisposedError",
    "Statistics",
    "StatisticsView",
    "current_dispose_scope",
    "dispose",
    "disposing",
    "lowlevel",
    "new_dispose_scope",
    "statistics",
]
