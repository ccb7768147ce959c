"""Deterministic lifetimes: scopes that own the objects created in them, and exact statistics."""

import sys as _sys
from importlib import import_module as _import_module
from os import environ as _environment

try:
    import scopes.core.main_interpreter as _main_interpreter  # first, because it refuses subinterpreters
    from scopes import lowlevel
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("scopes.core."):
        raise
    raise ImportError(
        f"the source folder {__path__[0]!r} has no compiled modules and hides the installed package: run "
        "Python from another folder, or install with `pip install --editable .`",
        name=_error.name,
    ) from None

# In free-threaded Python, the import of `lowlevel` turns the global lock on, unless the user forbids it.
if not getattr(_sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "disposescope can't be imported while Python runs without its global lock, because threads could "
        "free a tensor that another one uses: remove PYTHON_GIL=0 and -X gil=0; then a free-threaded Python "
        "turns the lock on by itself"
    )

from scopes._shared.moved import find_moved_modules as _find_moved_modules
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from scopes._shared.on_demand import public_names as _public_names
from scopes._shared.sizes import parse_size as _parse_size
from scopes._version import __version__ as __version__
from scopes.core.errors import ScopeDisposedError, ScopeLimitError, TensorDisposedError
from scopes.core.limits import describe_limits_by as _describe_limits_by
from scopes.core.scope import Disposable, DisposeScope, current_dispose_scope, new_dispose_scope
from scopes.core.scope import import_adapters_by as _import_adapters_by
from scopes.core.scope import report_survivors_by as _report_survivors_by
from scopes.tracking.limit_errors import refusal as _refusal
from scopes.tracking.sites import Line, Site
from scopes.tracking.tracking import CHILDREN as _CHILDREN
from scopes.tracking.tracking import explain_shortage_by as _explain_shortage_by
from scopes.tracking.tracking import is_tracking, track
from scopes.tracking.tracking import report_by as _report_by

# Loaded on demand: reports take three times as long to load as the rest, and most programs use none.
_ON_DEMAND = _origins_of(
    {
        "scopes.core.disposing": "dispose disposing",
        "scopes.core.figures": "DisposeStatistics",
        "scopes._shared.spill": "SpillError",
        "scopes.core.statistics": "Statistics StatisticsView statistics",
        "scopes.reports.leak_report": "LeakReport LeakRow",
        "scopes.reports.leaks": "Snapshot leaks snapshot",
        "scopes.reports.owners": "OwnerReport OwnerRow owners",
        "scopes.reports.timeline": "Timeline",
        "scopes.reports.tree": "ScopeRow ScopeTree scope_tree",
    }
)

__all__ = [*_public_names(globals(), _ON_DEMAND), "lowlevel"]


def _missing(name: str) -> str:
    text = f"module 'scopes' has no attribute {name!r}"
    if name in ("cupy", "jax", "notebook", "testing", "torch"):
        return f"{text} before it is imported: write import scopes.{name}"
    if name == "DisposeScopeManager":  # TorchSharp's
        return f"{text}: write scopes.statistics, or scopes.current_dispose_scope()"
    return text


__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, advice=_missing)

if _CHILDREN in _environment:
    # This may be a child process of a program under `disposescope run`, in a new interpreter.
    _import_module("scopes.command.children").follow()

_describe_limits_by(_parse_size, _refusal)
_import_adapters_by(lambda x: _import_module("scopes.adapters.libraries").import_adapter_of(x))
# Reports take long to load, and most programs use none.
_report_survivors_by(lambda members: _import_module("scopes.reports.leaks").survivors(members))
_explain_shortage_by(lambda error: _import_module("scopes.reports.owners").add_note(error))
_report_by(lambda every, path: _import_module("scopes.reports.listening").history_of(every, path))

_find_moved_modules()
