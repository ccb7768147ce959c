"""The cost of one op in float32, from one element to a million; ours inside a dispose scope."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import OURS, TORCH, Library
from benchmarks.harness import Case, Timer, in_scope

Loop = Callable[[Any, Any, int], None]

SIZES = (1, 1_000, 100_000, 1_000_000)
# Seconds. In the first 4 ms after a pause a small op takes twice as long, because caches are cold.
TURN = 0.02


def cases() -> Iterator[Case]:
    """Yield an addition at each size, other ops of one element, some that are recorded, and a view."""
    for size in SIZES:
        yield Case(f"ops/add {size:,}", partial(_timer, _add, size), rounds=40, round_seconds=TURN)
    for name, loop in LOOPS.items():
        yield Case(f"ops/{name} 1", partial(_timer, loop, 1), rounds=40, round_seconds=TURN)
    yield Case("ops/row", partial(_rows, (2, 2)), rounds=40, round_seconds=TURN)
    for name, loop in {"add": _add, **LOOPS}.items():
        build = partial(_timer, loop, 1, requires_grad=True)
        yield Case(f"ops/{name} 1, recorded", build, contenders=(OURS, TORCH), rounds=40, round_seconds=TURN)


def _timer(loop: Loop, size: int, library: Library, *, requires_grad: bool = False) -> Timer:
    gradient = {"requires_grad": True} if requires_grad else {}
    left = library.array(np.linspace(1, 2, size, dtype=np.float32), **gradient)
    right = library.array(np.linspace(2, 3, size, dtype=np.float32))
    return in_scope(library, partial(loop, left, right))


def _rows(shape: tuple[int, int], library: Library) -> Timer:
    matrix = library.array(np.ones(shape, np.float32))

    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            _row = matrix[1]

    return in_scope(library, loop)


# A variable holds the result until the next one, as in a user's program.


def _add(a: Any, b: Any, repetitions: int) -> None:
    for _ in range(repetitions):
        _result = a + b


def _multiply_by_number(a: Any, _b: Any, repetitions: int) -> None:
    for _ in range(repetitions):
        _result = a * 2.0


def _mean(a: Any, _b: Any, repetitions: int) -> None:
    for _ in range(repetitions):
        _result = a.mean()


def _reshape(a: Any, _b: Any, repetitions: int) -> None:
    for _ in range(repetitions):
        _result = a.reshape(1, 1)


LOOPS: dict[str, Loop] = {"multiply by a number": _multiply_by_number, "mean": _mean, "reshape": _reshape}
