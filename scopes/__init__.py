"""Deterministic lifetimes: scopes that own what is created in them, and exact statistics."""

from scopes import lowlevel
from scopes._containers import Disposable
from scopes._current import current_dispose_scope
from scopes._disposing import dispose, disposing
from scopes._errors import ScopeDisposedError
from scopes._figures import DisposeStatistics
from scopes._leaks import LeakReport, LeakRow, Snapshot, leaks, snapshot
from scopes._scope import DisposeScope, new_dispose_scope
from scopes._sites import Line, Site
from scopes._statistics import Statistics, StatisticsView, statistics
from scopes._timeline import Timeline
from scopes._tracking import is_tracking, track
from scopes._tree import ScopeRow, ScopeTree, scope_tree

__all__ = [
    "Disposable",
    "DisposeScope",
    "DisposeStatistics",
    "LeakReport",
    "LeakRow",
    "Line",
    "ScopeDisposedError",
    "ScopeRow",
    "ScopeTree",
    "Site",
    "Snapshot",
    "Statistics",
    "StatisticsView",
    "Timeline",
    "current_dispose_scope",
    "dispose",
    "disposing",
    "is_tracking",
    "leaks",
    "lowlevel",
    "new_dispose_scope",
    "scope_tree",
    "snapshot",
    "statistics",
    "track",
]
