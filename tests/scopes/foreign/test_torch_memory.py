"""The end of a scope frees memory of the process, even if other objects refer to the tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from tests.torch_memory import CASES, SIZE, measure_apart

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory of a process is read from Linux"
)
BYTES = 4 * SIZE
each_case = pytest.mark.parametrize(
    "case",
    [
        name if name == "view" else pytest.param(name, marks=pytest.mark.soak)
        for name in CASES
        if name != "export"
    ],
)


@each_case
def test_without_scopes_it_stays(case: str) -> None:
    figures = measure_apart(case, scoped=False)
    # The process may have given back some pages of PyTorch's import meanwhile.
    assert figures["after"] - figures["before"] > 0.6 * BYTES


@each_case
def test_with_a_scope_process_memory_returns_to_within_a_twentieth(case: str) -> None:
    figures = measure_apart(case, scoped=True)
    assert figures["after"] <= 1.05 * figures["before"]
    assert figures["held"] == []


@pytest.mark.soak
def test_what_an_array_of_numpy_still_holds_is_reported_with_its_line() -> None:
    figures = measure_apart("export", scoped=True)
    assert figures["after"] - figures["before"] > 0.9 * BYTES
    ((nbytes, by, line),) = figures["held"]
    assert nbytes == BYTES
    assert "NumPy" in by
    assert line == "x = torch.ones(size)"


ROUNDS = """
import torch, scopes.torch
from scopes import new_dispose_scope
kept, resident = [], []
with scopes.torch.owning():
    for _ in range(40):
        with new_dispose_scope("round"):
            kept += [torch.ones(40_000) for _ in range(100)]
        resident.append(scopes.torch.still_held().resident_bytes)
print(resident[1], resident[-1])
"""


def test_a_process_that_keeps_dead_tensors_does_not_grow() -> None:
    result = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, check=True)
    second, last = map(int, result.stdout.split())
    assert last <= 1.1 * second
