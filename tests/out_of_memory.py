"""A training step in which each allocation of Python's own fails in turn: nothing is lost.

A program, for tests: ``python -m tests.out_of_memory Adam 10`` takes every tenth allocation. Each fails in a
child of its own: where memory is short, NumPy and Python have faults of their own, which might show later.
"""

from __future__ import annotations

import _testcapi
import gc
import os
import sys
import traceback
from types import TracebackType

import numpy as np

import nn
import tensor
from scopes import current_dispose_scope, new_dispose_scope, statistics
from tensor import memory

# So many allocations in a row that do not happen mean that the step has ended.
BEYOND = 50


class Step:
    def __init__(self, optimizer: str) -> None:
        tensor.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(10, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 3))
        options = {"lr": 0.1, "momentum": 0.9} if optimizer == "SGD" else {}
        self.optimizer = getattr(nn.optim, optimizer)(self.model.parameters(), **options)
        rng = np.random.default_rng(0)
        self.inputs = tensor.tensor(rng.standard_normal((8, 10), np.float32))
        self.targets = tensor.tensor(rng.integers(0, 3, 8))

    def run(self) -> float:
        with new_dispose_scope("step"):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.inputs), self.targets)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    def what_is_there(self) -> tuple[object, ...]:
        self.optimizer.zero_grad()
        now = memory.statistics()
        scope = current_dispose_scope()
        return statistics.live_count, now.bytes_live, now.bytes_pinned, tensor.is_grad_enabled(), scope


def is_between(trace: TracebackType) -> bool:
    """Tell whether the error came in `Step.run` itself: `with` has made the scope, and not entered it."""
    frames = list(traceback.walk_tb(trace))
    return frames[-1][0].f_code is Step.run.__code__


def fail_once(step: Step, number: int, start: tuple[object, ...]) -> int:
    """Return 0 if the allocation failed and nothing was lost, 1 if the step has none of this number."""
    failure: BaseException | None = None
    # Python crashes where `dict.items()` finds no memory for a pair: some are freed here for it to take.
    _ = list(zip(range(20), range(20), strict=True))
    del _
    _testcapi.set_nomemory(number, number + 1)
    try:
        step.run()
        _testcapi.remove_mem_hooks()
    except (MemoryError, SystemError, TypeError) as error:  # NumPy may have lost its MemoryError
        _testcapi.remove_mem_hooks()
        failure = error
    if failure is not None:
        left = current_dispose_scope()
        if left is not None and failure.__traceback__ is not None and is_between(failure.__traceback__):
            left.dispose()
    has_failed = failure is not None
    failure = None
    assert step.what_is_there() == start
    assert np.isfinite(step.run())
    assert step.what_is_there() == start
    return not has_failed


def main(optimizer: str, every: int) -> None:
    step = Step(optimizer)
    for _ in range(3):
        step.run()
    gc.collect()
    gc.disable()
    start = step.what_is_there()
    failures = beyond = number = 0
    while beyond < BEYOND:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            status = 2
            try:
                status = fail_once(step, number, start)
            except AssertionError:
                traceback.print_exc()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status not in (0, 1):
            sys.exit(f"allocation {number}: the child ended with {status}")
        failures += status == 0
        beyond = (beyond + 1) * status
        number += every
    sys.stdout.write(f"{failures} failures, nothing lost\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
