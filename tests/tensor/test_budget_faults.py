"""Faults while saved values are in the file of a ``memory.budget``: all stays whole, and no file is left."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tensor
from tensor import memory
from tests.interrupts import garbage_waits

SIDE = 256
BUDGET = 4 * 4 * SIDE * SIDE


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


KILLED = """
import sys
import tensor
from tensor import memory

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
def test_a_killed_process_leaves_no_file(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"spilling\n"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
# Python reports what is raised while an object ends, and drops it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.parametrize("recompute", [False, True])
def test_interrupts_at_random_moments_lose_nothing(count: int, recompute: bool, tmp_path: Path) -> None:
    x = leaf()
    plain = gradient(x).numpy().copy()
    gc.collect()
    live = memory.statistics().bytes_live

    def ring(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    moments = random.Random(0)
    stopped = tried = 0
    before = signal.signal(signal.SIGALRM, ring)
    try:
        while stopped < count:
            tried += 1
            assert tried < 100 * count
            with garbage_waits():
                try:
                    signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-5, 2e-2))
                    with memory.budget(live + BUDGET, spill=tmp_path, recompute=recompute):
                        gradient(x)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    stopped += 1
            with memory.budget(live + BUDGET, spill=tmp_path, recompute=recompute) as budget:
                assert (gradient(x).numpy() == plain).all()
            assert budget.statistics().pressure_count > 0
            gc.collect()
            assert memory.statistics().bytes_live <= live
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert list(tmp_path.iterdir()) == []
