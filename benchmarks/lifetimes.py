"""What lifetimes cost: an empty scope, and disposing few and many tensors."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch

import tensor
from benchmarks.harness import NUMPY, OURS, TORCH, Case, Timer, timed
from scopes import new_dispose_scope


def cases() -> Iterator[Case]:
    """Yield a scope's enter and exit, then disposal per tensor: 1,000 at a time and 1,000,000 at a time."""
    yield Case("scopes/empty", _empty_scope, rounds=60)
    yield Case("scopes/dispose each of 1,000", _disposal, rounds=200, repetitions=1_000)
    yield Case("scopes/dispose each of 1,000,000", _disposal, rounds=5, repetitions=1_000_000)


def _empty_scope() -> Mapping[str, Timer]:
    def ours(repetitions: int) -> None:
        for _ in range(repetitions):
            with new_dispose_scope():
                pass

    return {OURS: timed(ours)}


def _disposal() -> Mapping[str, Timer]:
    """Time the end of a scope with that many one-element tensors, against clearing a list of as many."""

    def ours(count: int) -> float:
        scope = new_dispose_scope()
        # The list keeps all of them alive until the scope ends; it goes after the clock has stopped.
        held = [tensor.ones((1,)) for _ in range(count)]
        start = time.perf_counter()
        scope.dispose()
        seconds = time.perf_counter() - start
        held.clear()
        return seconds

    def clear(make: Callable[[], object], count: int) -> float:
        held = [make() for _ in range(count)]
        start = time.perf_counter()
        held.clear()
        return time.perf_counter() - start

    return {
        OURS: ours,
        NUMPY: partial(clear, partial(np.ones, (1,), np.float32)),
        TORCH: partial(clear, partial(torch.ones, (1,))),
    }
