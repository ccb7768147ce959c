"""Deterministic lifetimes: scopes that own what is created in them, and exact statistics."""

from importlib import import_module as _import_module
from os import environ as _environment
from typing import TYPE_CHECKING

from scopes import lowlevel
from scopes._disposing import dispose, disposing
from scopes._statistics import DisposeStatistics, Statistics, StatisticsView, statistics
from scopes._version import __version__ as __version__
from scopes.core.disposable import Disposable, current_dispose_scope
from scopes.core.errors import ScopeDisposedError, TensorDisposedError
from scopes.core.scope import DisposeScope, new_dispose_scope
from scopes.core.scope import report_survivors_by as _report_survivors_by
from scopes.tracking.sites import Line, Site
from scopes.tracking.tracking import CHILDREN as _CHILDREN
from scopes.tracking.tracking import is_tracking, track

if TYPE_CHECKING:
    from scopes.tracking.leaks import LeakReport, LeakRow, Snapshot, leaks, snapshot
    from scopes.tracking.timeline import Timeline
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

# Reports take three times as long to load as the rest, and most programs ask for none: each name is loaded
# when it is first used, from this module of `scopes.tracking`.
_REPORTS = {
    "LeakReport": "leaks",
    "LeakRow": "leaks",
    "ScopeRow": "tree",
    "ScopeTree": "tree",
    "Snapshot": "leaks",
    "Timeline": "timeline",
    "leaks": "leaks",
    "scope_tree": "tree",
    "snapshot": "leaks",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _REPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_import_module(f"scopes.tracking.{_REPORTS[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_REPORTS})


if _CHILDREN in _environment:
    # A child of a program under `disposescope run`, which may be started anew and import this first.
    _import_module("scopes._children").follow()

_report_survivors_by(lambda members: _import_module("scopes.tracking.leaks").survivors(members))
