"""Steps of three fresh results in a scope, as a new user would time an op: `--alone` gives the figures.

Figures are for one result.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import OURS, TORCH, Library
from benchmarks.harness import Case, Timer, timed

RESULTS = 3
SIZES = (10_000, 100_000, 1_000_000)
SHAPES = ((64, 10), (256, 1_000), (64, 32_000))

Op = Callable[[], Any]

ELEMENTWISE: dict[str, Callable[[Library, Any, Any], Any]] = {
    "add": lambda _, a, b: a + b,
    "multiply": lambda _, a, b: a * b,
    "exp": lambda library, a, _: library.xp.exp(a),
    "tanh": lambda library, a, _: library.xp.tanh(a),
    "sigmoid": lambda library, a, _: library.nn.functional.sigmoid(a),
    "gelu": lambda library, a, _: library.nn.functional.gelu(a),
    "x ** 3": lambda _, a, _b: a**3,
}
ROWS: dict[str, Callable[[Library, Any, Any], Any]] = {
    "softmax": lambda library, x, _: library.nn.functional.softmax(x, dim=1),
    "log_softmax": lambda library, x, _: library.nn.functional.log_softmax(x, dim=1),
    "layer norm": lambda library, x, row: library.nn.functional.layer_norm(x, tuple(row.shape), row, row),
    "sum of rows": lambda _, x, _row: x.sum(dim=1),
    "max of rows": lambda _, x, _row: x.amax(dim=1),
}


def cases() -> Iterator[Case]:
    """Yield elementwise ops, then ops on rows."""
    for size in SIZES:
        for name, op in ELEMENTWISE.items():
            yield _case(f"{name} {size:,}", op, (size,), (size,))
    for rows, columns in SHAPES:
        for name, op in ROWS.items():
            yield _case(f"{name} {rows:,} x {columns:,}", op, (rows, columns), (columns,))


def _case(
    name: str, op: Callable[[Library, Any, Any], Any], first: tuple[int, ...], second: tuple[int, ...]
) -> Case:
    make = partial(_op, op, first, second)
    return Case(
        f"fresh/{name}",
        partial(_loop, make),
        contenders=(OURS, TORCH),
        check=partial(_sum, make),
        round_seconds=0.02,
        per=RESULTS,
    )


def _op(
    op: Callable[[Library, Any, Any], Any], first: tuple[int, ...], second: tuple[int, ...], library: Library
) -> Op:
    numbers = np.random.default_rng(0)
    a, b = (library.array(numbers.uniform(0.1, 1, shape).astype(np.float32)) for shape in (first, second))
    return lambda: op(library, a, b)


def _loop(make: Callable[[Library], Op], library: Library) -> Timer:
    op = make(library)

    def step() -> None:
        with library.scope():
            _results = op(), op(), op()

    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            step()

    return timed(loop)


def _sum(make: Callable[[Library], Op], library: Library) -> Sequence[float]:
    with library.scope():
        return [float(make(library)().sum())]
