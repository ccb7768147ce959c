"""Load pickles of earlier versions, which name modules that have moved since."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # `importlib.abc` loads 20 modules, such as `tempfile`. Python needs only the methods.
    MetaPathFinder = Loader = object

# The modules that had public names, and where these are now.
_MOVED = {
    "scopes._clearing": "scopes._shared.clearing",
    "scopes._disposing": "scopes.core.disposing",
    "scopes._figures": "scopes.core.figures",
    "scopes._on_demand": "scopes._shared.on_demand",
    "scopes._spill": "scopes._shared.spill",
    "scopes._statistics": "scopes.core.statistics",
    "scopes.core.advice": "scopes._shared.advice",
    "scopes.core.calls": "scopes._shared.clearing",
    "scopes.core.compound": "scopes.core.scope",
    "scopes.core.disposable": "scopes.core.scope",
    "scopes.core.guard": "scopes._shared.guard",
    "scopes.core.keeping": "scopes.core.keepers",
    "scopes.core.resources": "scopes.core.scope",
    "scopes.core.tables": "scopes._shared.html",
    "scopes.core.tracebacks": "scopes._shared.tracebacks",
    "scopes.foreign": "scopes.adapters",
    "scopes.foreign.adapter": "scopes.adapters.adapter",
    "scopes.foreign.cupy": "scopes.adapters.cupy",
    "scopes.foreign.jax": "scopes.adapters.jax",
    "scopes.foreign.torch": "scopes.adapters.torch",
    "scopes.foreign.torch.budgets": "scopes.adapters.torch.budgets",
    "scopes.foreign.torch.owning": "scopes.adapters.torch.owning",
    "scopes.foreign.torch.report": "scopes.adapters.torch.report",
    "scopes.tracking.call_site": "scopes.tracking.records",
    "scopes.tracking.history": "scopes.reports.history",
    "scopes.tracking.leaks": "scopes.reports.leaks",
    "scopes.tracking.pages": "scopes.reports.pages",
    "scopes.tracking.reports": "scopes.reports.tables",
    "scopes.tracking.runs": "scopes.reports.runs",
    "scopes.tracking.sizes": "scopes._shared.sizes",
    "scopes.tracking.timeline": "scopes.reports.timeline",
    "scopes.tracking.tree": "scopes.reports.tree",
}


class _Loader(Loader):
    """Loads an old module: it has the names of the new one."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        found = vars(import_module(_MOVED[module.__name__]))
        vars(module).update({name: value for name, value in found.items() if not name.startswith("__")})


class _Finder(MetaPathFinder):
    """Finds the old modules."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Loader(), is_package=True) if fullname in _MOVED else None


def find_moved_modules() -> None:
    """Make imports of the old modules work. Modules that exist are found before."""
    sys.meta_path.append(_Finder())
