"""Pickles of earlier versions load: they name the modules that had the public names then."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

import scopes
import tensor

# Where public names were defined before each said `scopes`, `scopes.lowlevel` or `scopes.torch`.
BEFORE = {
    "scopes": {
        "scopes._disposing": "dispose disposing",
        "scopes._figures": "DisposeStatistics",
        "scopes._spill": "SpillError",
        "scopes._statistics": "Statistics StatisticsView",
        "scopes.core.disposable": "Disposable current_dispose_scope",
        "scopes.core.errors": "ScopeDisposedError ScopeLimitError TensorDisposedError",
        "scopes.core.scope": "DisposeScope",
        "scopes.tracking.leaks": "LeakReport LeakRow Snapshot leaks snapshot",
        "scopes.tracking.sites": "Line Site",
        "scopes.tracking.timeline": "Timeline",
        "scopes.tracking.tracking": "is_tracking track",
        "scopes.tracking.tree": "ScopeRow ScopeTree scope_tree",
    },
    "scopes.lowlevel": {
        "scopes._clearing": "clear_errors_of",
        "scopes.core.compound": "Compound",
        "scopes.core.disposable": "register",
        "scopes.core.errors": "ending_by",
        "scopes.core.keeping": "add_keeper forget_keeper note_held",
        "scopes.core.resources": "owner_of",
        "scopes.core.tracebacks": "clear_frames_of",
        "scopes._shared.sizes": "format_bytes parse_size",
    },
    "scopes.torch": {
        "scopes.foreign.torch.budgets": "BudgetStatistics",
        "scopes.foreign.torch.owning": "owning",
        "scopes.foreign.torch.report": "DeviceReport DeviceRow HeldReport HeldRow KeptReport KeptRow",
    },
}
# Names of `scopes.lowlevel` that it no longer has.
PRIVATE = {
    "scopes._on_demand": "ModuleOnDemand names_on_demand origins_of public_names when_imported",
    "scopes._spill": "SpillFile SpillStatistics Spilled",
    "scopes.core.advice": "advise_calls_of",
    "scopes.core.calls": "without_frames",
    "scopes.core.guard": "Closing Guard",
    "scopes.core.tables": "figures_to_html",
    "scopes.core.tracebacks": "clear_library_frames",
    "scopes.tracking.call_site": "call_site",
    "scopes.tracking.history": "History",
    "scopes.tracking.pages": "Curve chart_of page write_page",
    "scopes.tracking.records": "Record",
    "scopes.tracking.reports": "Cell Table as_html",
}
CASES = [(face, module, names) for face, table in BEFORE.items() for module, names in table.items()]


@pytest.mark.parametrize(("face", "module", "names"), CASES)
def test_a_name_in_an_old_pickle_is_the_public_name_of_today(face: str, module: str, names: str) -> None:
    if face == "scopes.torch":
        pytest.importorskip("torch")
    public = import_module(face)
    for name in names.split():
        assert pickle.loads(f"c{module}\n{name}\n.".encode()) is getattr(public, name)


@pytest.mark.parametrize(("module", "names"), PRIVATE.items())
def test_a_private_name_in_an_old_pickle_is_found_where_it_is_today(module: str, names: str) -> None:
    for name in names.split():
        found = pickle.loads(f"c{module}\n{name}\n.".encode())
        assert found is getattr(import_module(found.__module__), name)


def old_pickle(x: object, new: str, old: str) -> bytes:
    """Return `x` as an earlier version pickled it. Protocol 2 writes names of modules as lines of text."""
    data = pickle.dumps(x, 2)
    assert f"c{new}\n".encode() in data
    return data.replace(f"c{new}\n".encode(), f"c{old}\n".encode())


def test_an_old_pickle_of_statistics_loads() -> None:
    figures = scopes.statistics.snapshot()
    assert pickle.loads(old_pickle(figures, "scopes", "scopes._figures")) == figures


def test_an_old_pickle_of_an_error_loads() -> None:
    x = tensor.ones((2,))
    x.dispose()
    with pytest.raises(scopes.TensorDisposedError) as caught:
        x + 1
    again = pickle.loads(old_pickle(caught.value, "scopes", "scopes.core.errors"))
    assert type(again) is scopes.TensorDisposedError
    assert str(again) == str(caught.value)


def test_an_old_pickle_of_a_report_loads() -> None:
    with scopes.track():
        kept = tensor.ones((2,))
        row = scopes.leaks().rows[0]
    assert not kept.is_invalid
    data = (
        old_pickle(row, "scopes", "scopes.tracking.leaks")
        .replace(b"cscopes.tracking.leaks\nSite\n", b"cscopes.tracking.sites\nSite\n")
        .replace(b"cscopes.tracking.leaks\nLine\n", b"cscopes.tracking.sites\nLine\n")
    )
    again = pickle.loads(data)
    assert type(again) is scopes.LeakRow
    assert again.to_dict() == row.to_dict()


def test_a_module_that_never_existed_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("scopes.tracking.nowhere")
