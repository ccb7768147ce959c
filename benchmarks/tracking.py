"""The cost of tracking: ops, disposals and scopes, with it off and on. No other contender has tracking.

While it is off, it must cost nothing: ``off``, and ``off again`` after it was on, must be equal.
``with history`` is the cost after the start, when looks are less frequent. ``with record`` is that under
``disposescope run``, which also writes the latest report to a file that outlives the program.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import scopes
import tensor
from benchmarks.contenders import OURS, Library
from benchmarks.harness import Case, Timer, timed
from scopes import new_dispose_scope

Switch = Callable[[], AbstractContextManager[object]]


def _off_again() -> AbstractContextManager[object]:
    with scopes.track():
        tensor.ones((1,)).dispose()
    return nullcontext()


SWITCHES: dict[str, Switch] = {
    "off": nullcontext,
    "off again": _off_again,
    "on": scopes.track,
    "on, 3 lines": partial(scopes.track, 3),
}


def cases() -> Iterator[Case]:
    """Yield an op, an op that is recorded, a disposal and a scope, each with tracking off and on."""
    ours = partial(Case, contenders=(OURS,), rounds=40)
    for name, switch in SWITCHES.items():
        yield ours(f"tracking/multiply 1, {name}", partial(_multiplication, switch))
    yield ours("tracking/multiply 1, on, with history", partial(_multiplication_in_a_run, None))
    yield ours("tracking/multiply 1, on, with record", partial(_multiplication_in_a_run, _RECORD))
    for name in ("off", "on"):
        switch = SWITCHES[name]
        recorded = partial(_multiplication, switch, requires_grad=True)
        yield ours(f"tracking/multiply 1, recorded, {name}", recorded)
        yield ours(f"tracking/dispose 1,000, {name}", partial(_disposal, switch))
        yield ours(f"tracking/empty scope, {name}", partial(_empty_scope, switch))
    yield ours("tracking/leaks of 10,000", _leaks, rounds=10, repetitions=1)


def _multiplication(switch: Switch, _library: Library, *, requires_grad: bool = False) -> Timer:
    def ours(repetitions: int) -> None:
        with switch(), new_dispose_scope("step"):
            a, b = tensor.tensor([2.0], requires_grad=requires_grad), tensor.tensor([3.0])
            _multiply(a, b, repetitions)

    return timed(ours)


# So rarely that no report is printed: this measures only the cost of the history.
_NEVER = 1e9
_BEGINNING = 20_000
_RECORD = Path(tempfile.gettempdir()) / f"benchmark-{os.getpid()}.dspool"


def _multiplication_in_a_run(record: Path | None, _library: Library) -> Timer:
    def ours(repetitions: int) -> float:
        with scopes.track(every=_NEVER, survive=record), new_dispose_scope("step"):
            a, b = tensor.tensor([2.0]), tensor.tensor([3.0])
            _multiply(a, b, _BEGINNING)
            start = time.perf_counter()
            _multiply(a, b, repetitions)
            seconds = time.perf_counter() - start
        if record is not None:
            record.unlink()
        return seconds

    return ours


def _multiply(a: Any, b: Any, repetitions: int) -> None:
    # A variable holds the product until the next one, as in a user's program.
    for _ in range(repetitions):
        _product = a * b


def _disposal(switch: Switch, _library: Library) -> Timer:
    """Time the ends of scopes with 1,000 tensors each, which exist before. Figures are per scope."""

    def ours(repetitions: int) -> float:
        seconds = 0.0
        with switch():
            for _ in range(repetitions):
                scope = new_dispose_scope("step")
                held = [tensor.ones((1,)) for _ in range(1_000)]
                start = time.perf_counter()
                scope.dispose()
                seconds += time.perf_counter() - start
                held.clear()
        return seconds

    return ours


def _empty_scope(switch: Switch, _library: Library) -> Timer:
    def ours(repetitions: int) -> None:
        with switch():
            for _ in range(repetitions):
                with new_dispose_scope("step"):
                    pass

    return timed(ours)


def _leaks(_library: Library) -> Timer:
    """Time a report of 10,000 tensors that are alive."""

    def ours(repetitions: int) -> float:
        with scopes.track():
            held = [tensor.ones((1,)) for _ in range(10_000)]
            start = time.perf_counter()
            for _ in range(repetitions):
                scopes.leaks()
            seconds = time.perf_counter() - start
            held.clear()
        return seconds

    return ours
