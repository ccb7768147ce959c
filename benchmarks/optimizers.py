"""One optimizer step over many small parameters, over few large ones, and Muon's over a matrix."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer, in_scope, repeated
from benchmarks.networks import OPTIMIZERS, TIMING_RATE, optimizer_of

SIZES = ((1_000, 100), (10, 1_000_000), (1, 10_000_000))
MATRICES = ((64, 64), (512, 512), (1024, 4096))


def cases() -> Iterator[Case]:
    """Yield each optimizer over each set; the many small ones with PyTorch's other implementations too."""
    for count, size in SIZES:
        for optimizer in OPTIMIZERS:
            name = f"optimizers/{optimizer}, {count:,} x {size:,}"
            build = partial(_timer, optimizer, count, size)
            yield Case(name, build, rounds=16, round_seconds=0.01)
            for way in ("foreach", "fused"):
                yield Case(
                    f"{name}, PyTorch {way}",
                    partial(build, way=way),
                    contenders=(OURS, TORCH),
                    rounds=16,
                    round_seconds=0.01,
                )
    for shape in MATRICES:
        yield Case(
            f"optimizers/muon, {shape[0]:,} x {shape[1]:,}",
            partial(_muon, shape),
            contenders=(OURS, TORCH),
            rounds=16,
            round_seconds=0.01,
        )


def _muon(shape: tuple[int, int], library: Library) -> Timer:
    random = np.random.default_rng(0)
    weight, gradient = (random.standard_normal(shape, dtype=np.float32) for _ in range(2))
    parameter = library.nn.Parameter(library.array(weight))
    parameter.grad = library.array(gradient)
    return in_scope(library, repeated(library.optim.Muon([parameter], lr=TIMING_RATE).step))


def _timer(optimizer: str, count: int, size: int, library: Library, *, way: str | None = None) -> Timer:
    random = np.random.default_rng(0)
    weights, gradients = (random.standard_normal((count, size), dtype=np.float32) for _ in range(2))
    if library.name == NUMPY:
        by_numpy = optimizer_of(library, list(weights), optimizer, TIMING_RATE)
        return in_scope(library, repeated(partial(by_numpy.step, list(gradients))))
    parameters = []
    for weight, gradient in zip(weights, gradients, strict=True):
        parameter = library.nn.Parameter(library.array(weight))
        parameter.grad = library.array(gradient)
        parameters.append(parameter)
    ways = {way: True} if way is not None and library.name == TORCH else {}
    optimize = optimizer_of(library, parameters, optimizer, TIMING_RATE, **ways)
    return in_scope(library, repeated(optimize.step))
