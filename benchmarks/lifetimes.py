"""The cost of lifetimes: an empty scope, and the disposal of few and many tensors."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer, timed


def cases() -> Iterator[Case]:
    """Yield the enter and exit of a scope, then figures per tensor for several numbers of tensors."""
    # In its own process it needs long turns: in the first 4 ms after a pause the processor is half as fast.
    yield Case("scopes/empty", _empty_scope, contenders=(OURS, TORCH), rounds=40, round_seconds=0.05)
    yield Case("scopes/make, keep and dispose each of 100,000", _lifetimes, rounds=16, repetitions=100_000)
    yield Case("scopes/dispose each of 1,000", disposal, rounds=200, repetitions=1_000)
    yield Case("scopes/dispose each of 1,000,000", disposal, rounds=5, repetitions=1_000_000)


def _empty_scope(library: Library) -> Timer:
    """Time an empty scope; PyTorch has no scopes, so it adds two tensors of one element."""
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
    """Return a function that creates a tensor of one element."""
    if library.name == NUMPY:
        return partial(np.ones, (1,), np.float32)
    return partial(library.xp.ones, (1,))


def _lifetimes(library: Library) -> Timer:
    """Time a step that creates results of one element and keeps them all until its end."""
    x = maker_of(library)()

    def run(count: int) -> None:
        with library.scope():
            held = [x + x for _ in range(count)]
        held.clear()

    return timed(run)


def disposal(library: Library) -> Timer:
    """Time the end of a scope with one-element tensors, beside the clearing of an equally long list."""
    make = maker_of(library)

    def run(count: int) -> float:
        if library.name != OURS:
            held = [make() for _ in range(count)]
            start = time.perf_counter()
            held.clear()
            return time.perf_counter() - start
        scope: Any = library.scope()
        # The list keeps all tensors alive until the scope ends. It is freed after the measurement.
        held = [make() for _ in range(count)]
        start = time.perf_counter()
        scope.dispose()
        seconds = time.perf_counter() - start
        held.clear()
        return seconds

    return run
