"""What lifetimes cost: an empty scope, and disposing few and many tensors."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer, timed


def cases() -> Iterator[Case]:
    """Yield a scope's enter and exit, then figures per tensor, of so many at a time."""
    # Alone between pauses it needs long turns: in 4 ms the processor is not awake, and twice as slow.
    yield Case("scopes/empty", _empty_scope, contenders=(OURS, TORCH), rounds=40, round_seconds=0.05)
    yield Case("scopes/make, keep and dispose each of 100,000", _lifetimes, rounds=16, repetitions=100_000)
    yield Case("scopes/dispose each of 1,000", disposal, rounds=200, repetitions=1_000)
    yield Case("scopes/dispose each of 1,000,000", disposal, rounds=5, repetitions=1_000_000)


def _empty_scope(library: Library) -> Timer:
    """Time a scope around nothing; of PyTorch, which has none, the addition of two tensors of one element."""
    if library.name != OURS:
        x = maker_of(library)()

        def add(repetitions: int) -> None:
            for _ in range(repetitions):
                _result = x + x

        return timed(add)
    new_dispose_scope = library.scope

    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            with new_dispose_scope():
                pass

    return timed(loop)


def maker_of(library: Library) -> Callable[[], Any]:
    """Return what makes a tensor of one element."""
    if library.name == NUMPY:
        return partial(np.ones, (1,), np.float32)
    return partial(library.xp.ones, (1,))


def _lifetimes(library: Library) -> Timer:
    """Time a step that makes that many results of one element and keeps them all until its end."""
    x = maker_of(library)()

    def run(count: int) -> None:
        with library.scope():
            held = [x + x for _ in range(count)]
        held.clear()

    return timed(run)


def disposal(library: Library) -> Timer:
    """Time the end of a scope with that many one-element tensors, against clearing a list of as many."""
    make = maker_of(library)

    def run(count: int) -> float:
        if library.name != OURS:
            held = [make() for _ in range(count)]
            start = time.perf_counter()
            held.clear()
            return time.perf_counter() - start
        scope: Any = library.scope()
        # The list keeps all of them alive until the scope ends; it goes after the clock has stopped.
        held = [make() for _ in range(count)]
        start = time.perf_counter()
        scope.dispose()
        seconds = time.perf_counter() - start
        held.clear()
        return seconds

    return run
