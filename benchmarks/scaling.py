"""The growth of costs with tensors in a scope, nested scopes, threads and parameters, per item."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import CONTENDERS, OURS, TORCH, Library
from benchmarks.harness import Case, Timer, repeated, timed
from benchmarks.lifetimes import disposal, maker_of
from benchmarks.networks import TIMING_RATE, optimizer_of

COUNTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
DEPTHS = (1, 10, 100, 1_000)
THREADS = (1, 2, 4, 8, 16)
PARAMETERS = (10, 100, 1_000, 10_000)
SMALL, LARGE = 1, 1_000_000
WIDTH = 8


def cases() -> Iterator[Case]:
    """Yield creation and disposal, nested scopes, threads, and models. Names end with the number."""
    for what, build in {"create": _creation, "dispose": disposal}.items():
        for count in COUNTS:
            yield Case(
                f"scaling/{what}, tensors in a scope: {count:,}",
                build,
                # For PyTorch a million tensors suffice: ten million have the same cost per tensor.
                contenders=CONTENDERS if count < COUNTS[-1] else (OURS,),
                rounds=max(1, min(20, 3_000_000 // count)),
                repetitions=count,
                is_long=count == COUNTS[-1],
            )
    for depth in DEPTHS:
        yield Case(
            f"scaling/scope, nested: {depth:,}", partial(_nesting, depth), contenders=(OURS,), per=depth
        )
    for size in (SMALL, LARGE):
        for count in THREADS:
            name = f"scaling/add {size:,}, threads: {count}"
            yield Case(name, partial(_threads, size, count), rounds=20, round_seconds=0.02, per=count)
    for what, step in {"training step": _training_step, "optimizer step": _optimizer_step}.items():
        for count in PARAMETERS:
            yield Case(
                f"scaling/{what}, parameters: {count:,}",
                partial(step, count),
                contenders=(OURS, TORCH),
                rounds=20 if count < PARAMETERS[-1] else 8,
                per=count,
            )


def _creation(library: Library) -> Timer:
    """Time the creation of one-element tensors in one scope. All stay alive until its end."""
    make = maker_of(library)

    def run(count: int) -> float:
        with library.scope():
            start = time.perf_counter()
            held = [make() for _ in range(count)]
            seconds = time.perf_counter() - start
        held.clear()
        return seconds

    return run


def _nesting(depth: int, library: Library) -> Timer:
    """Time scopes inside each other, with a tensor each."""
    ones = library.xp.ones

    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            with ExitStack() as scopes:
                for _ in range(depth):
                    scopes.enter_context(library.scope())
                    _kept = ones((1,))

    return timed(loop)


def _threads(size: int, count: int, library: Library) -> Timer:
    """Time threads that add at the same time, each in its own scope."""
    a, b = (library.array(np.ones(size, np.float32)) for _ in range(2))

    def run(repetitions: int) -> float:
        barrier = threading.Barrier(count + 1)

        def work() -> None:
            barrier.wait()
            with library.scope():
                for _ in range(repetitions):
                    _sum = a + b

        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        barrier.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    return run


def _model(count: int, library: Library) -> Any:
    """Create a chain of layers with `count` parameters, a weight and a bias for each layer."""
    model = library.nn.Sequential(*(library.nn.Linear(WIDTH, WIDTH) for _ in range(count // 2)))
    # Each layer is the identity, so that no value vanishes in the long chain.
    for layer in model:
        library.nn.init.eye_(layer.weight)
        library.nn.init.zeros_(layer.bias)
    return model


def _training_step(count: int, library: Library) -> Timer:
    model = _model(count, library)
    optimize = optimizer_of(library, model.parameters(), "adam", TIMING_RATE)
    inputs = library.array(np.ones((WIDTH, WIDTH), np.float32))
    targets = library.array(np.zeros((WIDTH, WIDTH), np.float32))

    def step() -> None:
        with library.scope():
            optimize.zero_grad()
            library.nn.functional.mse_loss(model(inputs), targets).backward()
            optimize.step()

    return timed(repeated(step))


def _optimizer_step(count: int, library: Library) -> Timer:
    model = _model(count, library)
    for parameter in model.parameters():
        parameter.grad = library.array(np.ones(tuple(parameter.shape), np.float32))
    return timed(repeated(optimizer_of(library, model.parameters(), "adam", TIMING_RATE).step))
