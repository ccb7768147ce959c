"""Every allocation of a training step made to fail in turn: nothing is lost, and the next step works."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope, statistics
from tensor import memory
from tensor.memory import allocator


class Step:
    def __init__(self) -> None:
        tensor.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(100, 50), nn.LayerNorm(50), nn.ReLU(), nn.Linear(50, 10))
        self.optimizer = nn.optim.Adam(self.model.parameters())
        rng = np.random.default_rng(0)
        self.inputs = tensor.tensor(rng.standard_normal((64, 100), np.float32))
        self.targets = tensor.tensor(rng.integers(0, 10, 64))

    def run(self) -> float:
        with new_dispose_scope():
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.inputs), self.targets)
            loss.backward()
            self.optimizer.step()
            return loss.item()


@pytest.mark.skipif(not allocator.DEBUGGING, reason="only the debugging build makes allocations fail")
@pytest.mark.parametrize("min_pooled_bytes", [4096, 1])
def test_step_that_fails_at_any_allocation_leaks_nothing_and_the_next_one_works(
    min_pooled_bytes: int,
) -> None:
    before = memory.configuration().min_pooled_bytes
    memory.configure(min_pooled_bytes=min_pooled_bytes)
    try:
        step = Step()
        step.run()
        step.optimizer.zero_grad()
        gc.collect()
        start = memory.statistics()
        alive = statistics.live_count
        failures = 0
        for number in range(1, 2000):
            allocator.fail_allocation(number)
            try:
                step.run()
            except memory.OutOfMemoryError:
                failures += 1
            else:
                break
            finally:
                allocator.fail_allocation(0)
            step.optimizer.zero_grad()
            now = memory.statistics()
            assert (now.bytes_live, now.bytes_pinned) == (start.bytes_live, start.bytes_pinned), number
            assert statistics.live_count == alive, number
        assert failures > 15
        assert tensor.is_grad_enabled()
        assert np.isfinite(step.run())
    finally:
        memory.configure(min_pooled_bytes=before)


# Python 3.13 ends the process in `bytearray.join` and `numpy.frombuffer`, which the optimizers call.
EVERY = pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python crashes without memory")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(find_spec("_testcapi") is None, reason="this Python cannot make allocations fail")
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=[pytest.mark.soak, EVERY])])
def test_a_step_in_which_any_allocation_of_python_fails_loses_nothing(optimizer: str, every: int) -> None:
    command = [sys.executable, "-m", "tests.out_of_memory", optimizer, str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # How many allocations a step has is up to the interpreter: 3.14 keeps more objects for later use.
    assert int(done.stdout.split()[0]) > 100 // every
