"""Elementwise ops in a step that keeps all their results until its end, as a forward pass does.

The C library returns the memory of a step's results to the system at the end of the step, so the next step
uses fresh memory. A pool gives the next step the same memory again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.contenders import Library
from benchmarks.harness import Case, Timer, timed
from benchmarks.memory import OPS, step_of

SIZES = (10_000, 100_000, 1_000_000)
RESULTS = 20


def cases() -> Iterator[Case]:
    """Yield each op of `benchmarks.memory`; figures are for one result."""
    for size in SIZES:
        for name in OPS:
            yield Case(
                f"kept/{name} {size:,}",
                partial(_loop, name, size),
                check=partial(_last_result, name, size),
                round_seconds=0.03,
                per=RESULTS,
            )


def _loop(name: str, size: int, library: Library) -> Timer:
    step = _step(name, size, library)

    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            with library.scope():
                step()

    return timed(loop)


def _last_result(name: str, size: int, library: Library) -> Sequence[float]:
    step = _step(name, size, library)
    with library.scope():
        return [step(), step()]


def _step(name: str, size: int, library: Library) -> Callable[[], float]:
    op = step_of(name, size, library)

    def step() -> float:
        results = [op() for _ in range(RESULTS)]
        return float(results[-1][size // 2].item())

    return step
