"""Faults while saved values are in the file of a ``memory.budget``: all stays whole, and no file is left."""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import tensor
from scopes._shared.spill import SpillError, SpillFile
from tensor import memory
from tensor.memory.allocator import current_limit
from tests.interrupts import interrupt_at_random_moments, interrupted_at, kill_when_it_spills

SIDE = 256
BUDGET = 4 * 4 * SIDE * SIDE
LIMIT = BUDGET + 2 * 4 * SIDE * SIDE


def gradient(x: tensor.Tensor, count: int = 12) -> tensor.Tensor:
    x.grad = None
    y = x
    for _ in range(count):
        y = y.sin()
    y.sum().backward()
    found = x.grad
    assert found is not None
    return found


def leaf() -> tensor.Tensor:
    return tensor.linspace(0, 1, SIDE * SIDE).reshape((SIDE, SIDE)).detach().requires_grad_()


def idle() -> list[tensor.Tensor]:
    """Return tensors that nobody looks at: they go to the file first."""
    return [tensor.full((SIDE, SIDE), float(i)) for i in range(3)]


def check_idle(state: list[tensor.Tensor]) -> None:
    for i, x in enumerate(state):
        assert (x == i).all()


KILLED = """
import sys
import tensor
from tensor import memory
from tensor.memory.allocator import current_limit

x = tensor.ones((256, 256), requires_grad=True)
with memory.budget("1 MiB", spill=sys.argv[1], recompute=False) as budget:
    while True:
        y = x
        for _ in range(12):
            y = y.sin()
        if budget.statistics().spilled_bytes:
            print("spilling", flush=True)
        y.sum().backward()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("count", [1, pytest.param(200, marks=pytest.mark.soak)])
def test_a_killed_process_leaves_no_file(count: int, tmp_path: Path) -> None:
    for _ in range(count):
        kill_when_it_spills(KILLED, tmp_path)


def test_an_interrupt_at_any_call_leaves_no_limit() -> None:
    def run() -> None:
        with memory.budget("1 GiB"):
            pass

    run()  # loads modules, which would change the number of calls
    event = 1
    while interrupted_at(event, run):
        assert current_limit() is None, event
        event += 1
    assert event > 20


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
# Python reports what is raised while an object ends, and drops it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.parametrize("recompute", [False, True])
def test_interrupts_at_random_moments_lose_nothing(count: int, recompute: bool, tmp_path: Path) -> None:
    x, state = leaf(), idle()
    plain = gradient(x).numpy().copy()
    gc.collect()
    live = memory.statistics().bytes_live

    def run() -> None:
        with memory.budget(live + BUDGET, spill=tmp_path, recompute=recompute):
            gradient(x)

    def check() -> None:
        with memory.budget(live + BUDGET, spill=tmp_path, recompute=recompute) as budget:
            assert (gradient(x).numpy() == plain).all()
        assert budget.statistics().pressure_count > 0
        assert current_limit() is None
        check_idle(state)
        gc.collect()
        assert memory.statistics().bytes_live <= live

    interrupt_at_random_moments(count, run, check, KeyboardInterrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.soak)])
# With how many calls it is drawn which one fails.
@pytest.mark.parametrize(("kind", "among"), [("_write_at", 20), ("_read_at", 20), ("_grow", 4)])
def test_disks_that_fail_at_random_moments_lose_nothing(
    kind: str, among: int, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gc.collect()
    limit = memory.statistics().bytes_live + LIMIT  # earlier tests may have left tensors
    x, state = leaf(), idle()
    plain = gradient(x).numpy().copy()
    x.grad = None
    works = getattr(SpillFile, kind)
    moments = random.Random(0)
    left = failed = tried = 0

    def fails(self: SpillFile, *arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO if kind == "_read_at" else errno.ENOSPC, "the disk fails")
        return works(self, *arguments)

    while failed < count:
        tried += 1
        assert tried < 100 * count
        left = moments.randrange(among)
        with monkeypatch.context() as patch:
            patch.setattr(SpillFile, kind, fails)
            try:
                with memory.budget(limit, spill=tmp_path, recompute=False):
                    gradient(x)
                    x.grad = None
                    check_idle(state)
            except SpillError:
                failed += 1
                assert x.grad is None
        with memory.budget(limit, spill=tmp_path, recompute=False):
            assert (gradient(x).numpy() == plain).all()
            x.grad = None
            check_idle(state)
    gc.collect()
    assert list(tmp_path.iterdir()) == []
