"""What reports, timelines, the command line and the pytest plugin say of PyTorch's tensors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scopes
from scopes import new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch.memory import SHOWS_SAVED  # noqa: E402

ROOT = Path(__file__).parents[3]


def python(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_leaks_name_the_users_line_and_not_pytorchs() -> None:
    model = torch.nn.Linear(10, 10)
    kept = []
    with scopes.track(), scopes.torch.owning():
        for _ in range(5):
            with new_dispose_scope("step") as scope:
                kept.append(scope.detach(model(torch.ones(25, 10)).detach()))
        (row,) = scopes.leaks().rows
    assert (row.kinds, row.count, row.nbytes) == (("torch.Tensor",), 5, 5000)
    assert "model(torch.ones(25, 10))" in row.site.text
    assert row.count_per_round == 1
    assert row.scope == ("step",)


@pytest.mark.skipif(not SHOWS_SAVED, reason="this version shows what a graph keeps only after its hooks")
def test_a_loss_that_is_added_up_counts_with_its_graph() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with scopes.track(), scopes.torch.owning():
        total: Any = torch.zeros(())
        for _ in range(10):
            total = total + (weight.exp() * 2).sum()
        (row,) = scopes.leaks().rows
    assert row.count == 1
    assert 10 * 4000 <= row.nbytes < 10 * 4000 + 1000
    assert "total = total +" in row.site.text


def test_the_tree_of_scopes_has_their_bytes() -> None:
    with scopes.track(), scopes.torch.owning():
        for _ in range(3):
            with new_dispose_scope("step"):
                x = torch.ones(250)
                x = x * 2
        row = scopes.scope_tree()["step"]
    assert (row.rounds, row.created_count, row.created_bytes) == (3, 6, 6000)
    assert (row.peak_bytes, row.alive_bytes) == (2000, 0)


def test_survivors_of_a_scope_are_reported_by_line() -> None:
    with scopes.track(), scopes.torch.owning(), new_dispose_scope() as scope:
        kept = [torch.ones(10) for _ in range(3)]
        assert [(row.count, row.nbytes) for row in scope.survivors().rows] == [(3, 120)]
    assert len(kept) == 3


def test_a_timeline_shows_their_memory(tmp_path: Path) -> None:
    with scopes.Timeline() as timeline, scopes.torch.owning(), new_dispose_scope("step"):
        x = torch.ones(1_000_000)
        y = x[0]
        assert y.item() == 1.0
    path = tmp_path / "trace.json"
    timeline.save(path)
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    live = [value for event in events if event["ph"] == "C" for value in event["args"].values()]
    assert max(live) >= 4_000_000


def test_memory_is_reported_by_device() -> None:
    with scopes.torch.owning(), new_dispose_scope() as scope:
        x = torch.ones(250)
        kept = [x, x[:10], torch.ones(10, device="meta")]
        report = scopes.torch.memory_by_device(scope)
        assert {row.device: (row.count, row.nbytes) for row in report.rows} == {
            "cpu": (2, 1000),
            "meta": (1, 0),
        }
        assert report.nbytes == 1000
        assert "torch tensors of the scope, by device" in str(report)
        assert scopes.torch.memory_by_device().nbytes == 1000
    assert len(kept) == 3
    assert scopes.torch.memory_by_device().rows == ()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_cuda_device_memory_comes_back_with_the_scope() -> None:
    before = torch.cuda.memory_allocated()
    with scopes.torch.owning(), new_dispose_scope() as scope:
        x = torch.ones(1_000_000, device="cuda")
        (row,) = scopes.torch.memory_by_device(scope).rows
        assert row.device == str(x.device)
        assert row.nbytes == 4_000_000
        assert row.allocated_bytes is not None
        assert row.allocated_bytes >= before + 4_000_000
    assert torch.cuda.memory_allocated() == before


LEAKS = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
cell = torch.nn.RNNCell(20, 20)
losses, cache, activations, errors = [], {}, [], []
model[1].register_forward_hook(lambda module, args, output: activations.append(output))
hidden = torch.zeros(8, 20)
total = torch.zeros(())

def check(x):
    bad = x * float("nan")
    if not bad.isfinite().all():
        raise ValueError("not finite")

for step in range(50):
    x = torch.randn(8, 20)
    loss = (model(x) ** 2).mean()
    losses.append(loss)  # 1: a list of losses with their graphs
    cache[step] = x.double()  # 2: a cache
    hidden = cell(x, hidden)  # 4: a state that is never detached
    total = total + loss  # 5: losses added up
    try:
        check(x)
    except ValueError as error:
        errors.append(error)  # 6: exceptions with their frames
"""


def test_the_command_line_names_planted_leaks_of_an_unchanged_program(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(LEAKS, encoding="utf-8")
    run = python("-m", "scopes", "run", "--torch", "--fail-on-leak", "train.py", cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    for line in (
        "loss = (model(x) ** 2).mean()",
        "cache[step] = x.double()",
        "x = torch.randn(8, 20)",
        'bad = x * float("nan")',
        "total = total + loss",
    ):
        assert line in run.stderr, run.stderr
    assert "torch.Tensor" in run.stderr


def test_the_command_line_says_when_there_is_no_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", encoding="utf-8"
    )
    (tmp_path / "train.py").write_text("print('ran')", encoding="utf-8")
    run = python("-m", "scopes", "run", "--torch", "train.py", cwd=tmp_path)
    assert run.returncode == 1
    assert "pip install '.[torch]'" in run.stderr
    assert "ran" not in run.stdout


SHORT_RUN = """
import torch
from scopes import new_dispose_scope

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(32, 64)
for _ in range({rounds}):
    with new_dispose_scope("step"):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("rounds", [3, 5])
def test_the_state_of_an_optimizer_does_not_grow_in_a_short_run(rounds: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SHORT_RUN.format(rounds=rounds), encoding="utf-8")
    done = python("-m", "scopes", "run", "--torch", "program.py", cwd=tmp_path)
    assert "optimizer.step()" in done.stderr
    assert "+" not in done.stderr


IN_A_FUNCTION = """
import torch
from torch.nn.functional import cross_entropy


def train():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range({rounds}):
        x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


train()
"""


@pytest.mark.parametrize("rounds", [2, 3, 4, 6])
def test_a_short_training_in_a_function_is_no_leak(rounds: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(IN_A_FUNCTION.format(rounds=rounds), encoding="utf-8")
    done = python("-m", "scopes", "run", "--fail-on-leak", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_snapshot_is_later_than_all_that_was_created_before() -> None:
    with scopes.track():
        kept = torch.nn.Linear(3, 2)  # its parameters are noted, and nothing has read the notes yet
        since = scopes.snapshot()
        assert scopes.leaks(since=since).count == 0
    assert kept.bias.shape == (2,)


def test_a_search_of_graphs_counts_no_tensors_that_only_they_hold() -> None:
    model = torch.nn.Linear(3, 2)
    with scopes.track():
        # The logarithm of a softmax in each graph has no Python object.
        losses = [
            torch.nn.functional.cross_entropy(model(torch.ones(4, 3)), torch.zeros(4, dtype=torch.long))
            for _ in range(5)
        ]
        counts = [scopes.leaks().count for _ in range(3)]
    assert len(set(counts)) == 1
    assert len(losses) == 5
