"""Deterministic lifetimes: scopes that own what is created in them, and exact statistics."""

from scopes import lowlevel
from scopes._disposing import dispose, disposing
from scopes._statistics import DisposeStatistics, Statistics, StatisticsView, statistics
from scopes.core.disposable import Disposable, current_dispose_scope
from scopes.core.errors import ScopeDisposedError, TensorDisposedError
from scopes.core.scope import DisposeScope, new_dispose_scope
from scopes.tracking.leaks import LeakReport, LeakRow, Snapshot, leaks, snapshot
from scopes.tracking.sites import Line, Site
from scopes.tracking.timeline import Timeline
from scopes.tracking.tracking import is_tracking, track
from scopes.tracking.tree import ScopeRow, ScopeTree, scope_tree

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
    "TensorDisposedError",
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
