"""The cost of one op, ``a + b`` in float32, from one element to a million; ours inside a dispose scope."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

import tensor
from benchmarks.harness import NUMPY, OURS, TORCH, Case, Timer, timed
from scopes import new_dispose_scope

SIZES = (1, 1_000, 100_000, 1_000_000)


def cases() -> Iterator[Case]:
    """Yield an addition at each size, and one at one element that is recorded for backward."""
    for size in SIZES:
        yield Case(f"ops/add {size:,}", partial(_addition, size), rounds=60)
    yield Case("ops/add 1, recorded", partial(_addition, 1, requires_grad=True), rounds=60)


def _addition(size: int, *, requires_grad: bool = False) -> Mapping[str, Timer]:
    left = np.linspace(0, 1, size, dtype=np.float32)
    right = np.linspace(1, 2, size, dtype=np.float32)
    our_left, our_right = tensor.tensor(left, requires_grad=requires_grad), tensor.tensor(right)
    torch_left, torch_right = torch.tensor(left, requires_grad=requires_grad), torch.tensor(right)

    def ours(repetitions: int) -> None:
        with new_dispose_scope():
            _add(our_left, our_right, repetitions)

    timers = {OURS: timed(ours), TORCH: timed(partial(_add, torch_left, torch_right))}
    if not requires_grad:
        timers[NUMPY] = timed(partial(_add, left, right))
    return timers


def _add(a: Any, b: Any, repetitions: int) -> None:
    # The sum has a name, as in a user's program: it goes when the next one takes its name.
    for _ in range(repetitions):
        _sum = a + b
