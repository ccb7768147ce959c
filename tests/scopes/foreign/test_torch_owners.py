"""What owns the memory of PyTorch's tensors, and PyTorch's errors for a lack of memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scopes
from scopes import OwnerReport, OwnerRow
from scopes.reports.owners import HEADING

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch.memory import SHOWS_SAVED  # noqa: E402

ROOT = Path(__file__).parents[3]
PYTORCH = """
import resource, torch

def train():
    model = torch.nn.Linear(256, 256)
    out = model(torch.ones((4096, 256))).tanh()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 50 * 2**20,) * 2)
    return out, torch.ones((100_000_000,))

train()
"""


@pytest.fixture(autouse=True)
def nothing_is_hidden() -> None:
    gc.unfreeze()  # tests run with older objects frozen, and the adapter freezes all again
    gc.collect()


# Classes of this file alone: models of other tests may be alive.
class Pair(torch.nn.Sequential):  # type: ignore[misc, name-defined]
    pass


class Descent(torch.optim.SGD):  # type: ignore[misc, name-defined]
    pass


class Rows(torch.utils.data.TensorDataset):  # type: ignore[misc, name-defined]
    pass


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64, bias=False)
        self.register_buffer("mean", torch.ones(1000))

    def forward(self, x: Any) -> Any:
        return self.linear(x).tanh()


def rows_of(report: OwnerReport, kind: str) -> list[OwnerRow]:
    return [row for row in report.rows if row.kind == kind]


def sizes(report: OwnerReport, kind: str) -> list[tuple[str, int]]:
    found = [(row.owner, row.nbytes) for row in rows_of(report, kind)]
    return [(owner, nbytes) for owner, nbytes in found if owner in ("Pair", "Descent", "Rows")]


def test_models_gradients_optimizers_and_data_sets_own_their_memory() -> None:
    model = Pair(Block(), Block())  # before tracking
    optimizer = Descent(model.parameters(), momentum=0.9)
    data = Rows(torch.ones(100, 64))
    with scopes.track():
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
        report = scopes.owners()
    assert len(data) == 100
    weights = 2 * 64 * 64 * 4
    assert sizes(report, "parameters") == sizes(report, "gradients") == [("Pair", weights)]
    assert sizes(report, "optimizer") == [("Descent", weights)]
    assert sizes(report, "buffers") == [("Pair", 2 * 1000 * 4)]
    assert sizes(report, "data") == [("Rows", 100 * 64 * 4)]


@pytest.mark.skipif(not SHOWS_SAVED, reason="this version shows what a graph keeps only after its hooks")
def test_activations_have_the_line_and_the_module_that_made_them() -> None:
    model = torch.nn.Sequential(Block(), Block(), Block())
    with scopes.track():
        out = model(torch.ones(512, 64))
        report = scopes.owners()
    assert out.shape == (512, 64)
    (block,) = [row for row in rows_of(report, "activations") if row.owner == "Block"]
    assert "self.linear(x).tanh()" in block.site.text
    assert block.nbytes == 3 * 512 * 64 * 4


def test_a_search_creates_no_gradient_object_that_is_tracked() -> None:
    model = Block()
    with scopes.track():
        model(torch.ones(8, 64)).sum().backward()
        scopes.owners()
        rows = [row for row in scopes.leaks().rows if "scopes" in row.site.file]
    assert rows == []


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: ..."),
    ],
)
def test_errors_of_pytorch_get_the_owners_as_a_note(error: Exception) -> None:
    with pytest.raises(RuntimeError) as caught, scopes.track():
        kept = torch.ones(50_000)
        raise error
    assert kept.shape == (50_000,)
    (note,) = caught.value.__notes__
    assert note.startswith(HEADING)
    assert "kept = torch.ones(50_000)" in note


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
def test_the_command_prints_what_owned_the_memory_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PYTORCH, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "scopes", "run", "program.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=500,
    )
    assert ran.returncode == 1
    assert "DefaultCPUAllocator: can't allocate memory" in ran.stderr
    table = ran.stderr.partition("ran out of memory. What owned it:")[2].partition("has ended.")[0]
    assert "model(torch.ones((4096, 256))).tanh()" in table
    assert "parameters" in table
