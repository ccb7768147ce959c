"""What ``import scopes.torch`` adds to ``import torch``: few modules and little memory."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("torch")
import scopes.torch
from tests.process import needs_process_memory


def printed_by(*lines: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_import_loads_no_module_of_distributed_tensors_or_sympy() -> None:
    before = "import sys, torch; before = set(sys.modules)"
    added = printed_by(before, "import scopes.torch", "print(*set(sys.modules) - before)")
    assert "scopes.adapters.torch.owning" in added
    own = [name for name in added if name.startswith("scopes")]
    assert [name for name in added if name.startswith(("torch", "sympy", "mpmath", "numpy"))] == []
    assert len(added) - len(own) < 10


def test_import_loads_no_report_and_no_budget() -> None:
    added = printed_by("import sys, torch, scopes.torch; print(*sys.modules)")
    assert set(added) & set(scopes.torch._ON_DEMAND.values()) == set()
    assert set(added) & {"scopes.reports.leaks", "scopes.reports.tables"} == set()


def test_names_loaded_on_demand_are_those_of_their_modules() -> None:
    for name, module in scopes.torch._ON_DEMAND.items():
        found: Any = import_module(module)
        if module != f"scopes.torch.{name}":  # that is a module itself
            found = getattr(found, name)
        assert inspect.unwrap(getattr(scopes.torch, name)) is inspect.unwrap(found)
        assert getattr(scopes.torch, name) is getattr(scopes.torch, name)


@needs_process_memory
def test_import_takes_at_most_three_mebibytes_of_private_memory() -> None:
    lines = "import torch", "from tests.process import own_bytes", "own_bytes()", "before = own_bytes()"
    took = int(*printed_by(*lines, "import scopes.torch", "print(own_bytes() - before)"))
    assert took < 3 * 2**20


@pytest.mark.parametrize(
    "around",
    [
        "torch.autograd.graph.save_on_cpu()",
        "torch.autograd.graph.saved_tensors_hooks(lambda x: 1 / 0, lambda x: x)",
        "torch.no_grad()",
        "torch.inference_mode()",
        "torch.device('meta')",
    ],
)
def test_first_import_may_be_inside_hooks_and_modes_of_pytorch(around: str) -> None:
    lines = (
        "import scopes, torch",
        f"with {around}: import scopes.torch",
        "from scopes.foreign.torch import noting",
    )
    scope = "with scopes.new_dispose_scope(), scopes.torch.owning(): x = torch.ones(3)"
    assert printed_by(*lines, scope, "print(x.is_invalid, noting.can_note)") == ["True", "True"]
