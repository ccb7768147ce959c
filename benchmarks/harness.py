"""Measure contenders alternately: many short rounds, medians and quartiles, and ratios within a round."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isclose

from benchmarks.contenders import CONTENDERS, OURS, Library
from benchmarks.neighbours import DISTURBED, Neighbours

Timer = Callable[[int], float]
"""Runs that many repetitions and returns the seconds that they took, setting up and clearing not counted.

Where the unit of a case is bytes, it returns how many bytes the work took.
"""


LOOK = 0.01
"""How long a look is, in seconds, telling if a process is quiet: some ticks of the system's clock."""


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work by each contender.

    Attributes
    ----------
    name
        ``family/what``, which ``--only`` matches.
    build
        Creates the timer of one contender. Called directly before the case runs, so that cases do not share
        memory.
    contenders
        The contenders of this case.
    check
        Does some of the work and returns figures. They must be about equal for all contenders, because times
        of different work can't be compared.
    rounds
        The number of turns of each contender.
    round_seconds
        The wanted time of one turn, which determines the repetitions.
    repetitions
        A fixed number of repetitions in a turn, for work that needs that number.
    per
        The number of items in one repetition. Figures are for one item.
    unit
        The unit of the figures: ``"seconds"`` or ``"bytes"``.
    is_long
        Whether a quick run leaves it out.
    """

    name: str
    build: Callable[[Library], Timer]
    contenders: tuple[str, ...] = CONTENDERS
    check: Callable[[Library], Sequence[float]] | None = None
    rounds: int = 24
    round_seconds: float = 0.004
    repetitions: int | None = None
    per: int = 1
    unit: str = "seconds"
    is_long: bool = False


@dataclass(frozen=True)
class Summary:
    """Seconds per repetition, or bytes, of one contender: quartiles over its rounds.

    ``relative`` is the median, over the rounds, of the ratio to the first contender's time in the same
    round.
    """

    median: float
    lower_quartile: float
    upper_quartile: float
    relative: float
    rounds: int
    repetitions: int

    @classmethod
    def of(cls, samples: Sequence[float], repetitions: int, first: Sequence[float]) -> "Summary":
        """Summarize the samples (seconds per repetition, or bytes), and those of the first contender."""
        relative = statistics.median([mine / its for mine, its in zip(samples, first, strict=True)])
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], relative, 1, repetitions)
        lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, lower, upper, relative, len(samples), repetitions)


@dataclass(frozen=True)
class Result:
    """The figures of one case by contender, and the number of cores that other processes used meanwhile."""

    name: str
    summaries: Mapping[str, Summary]
    neighbours_cores: float | None
    unit: str
    is_least: bool = False

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes used so much of the machine that the times are not reliable."""
        if self.unit != "seconds" or self.neighbours_cores is None or self.is_least:
            return False
        return self.neighbours_cores >= DISTURBED

    def ratio(self, other: str) -> float | None:
        """Return the other's figure over ours: above 1, ours is better. None if either is missing.

        It is the median over the rounds. The machine may change its speed for seconds at a time. Within a
        round the speed is about the same for all contenders.
        """
        if OURS not in self.summaries or other not in self.summaries:
            return None
        return self.summaries[other].relative / self.summaries[OURS].relative


@dataclass(frozen=True)
class Manner:
    """How cases are measured.

    Attributes
    ----------
    quick
        A quarter of the rounds.
    least
        The least of many short rounds counts, not the median: for a machine that other programs use too.
    """

    quick: bool = False
    least: bool = False

    def rounds(self, case: Case) -> int:
        """Return the number of turns of each contender."""
        if self.least:
            return LEAST_OF
        return min(case.rounds, max(3, case.rounds // 4)) if self.quick else case.rounds


LEAST_OF = 30
"""The rounds of which the least counts; a turn of them takes a millisecond or so."""


def timed(loop: Callable[[int], object]) -> Timer:
    """Create a timer of a function that repeats the work a given number of times, without setup."""

    def run(repetitions: int) -> float:
        start = time.perf_counter()
        loop(repetitions)
        return time.perf_counter() - start

    return run


def turns(case: Case, timer: Timer) -> Timer:
    """Create a timer that starts warm, and ends when no thread of this process is busy.

    Thread pools spin after their last work: PyTorch's for 10 ms, NumPy's BLAS for 110 ms. Meanwhile they take
    a core from the next contender. On two cores, a matrix product of PyTorch then took 16 ms instead of 1.6.
    """

    def run(repetitions: int) -> float:
        if case.repetitions is None:
            timer(1)  # caches and threads are warm for this contender, not for the last
        seconds = timer(repetitions)
        used, deadline = time.process_time(), time.monotonic() + 1
        while time.monotonic() < deadline:
            time.sleep(LOOK)
            before, used = used, time.process_time()
            if used - before < LOOK / 10:
                break
        return seconds

    return run


def in_scope(library: Library, loop: Callable[[int], object]) -> Timer:
    """Create a timer of a function that repeats the work a given number of times; ours in a scope."""

    def run(repetitions: int) -> None:
        with library.scope():
            loop(repetitions)

    return timed(run)


def repeated(step: Callable[[], object]) -> Callable[[int], None]:
    """Return a loop of a step. A variable holds the result until the next one, as in a user's program."""

    def loop(repetitions: int) -> None:
        for _ in range(repetitions):
            _result = step()

    return loop


@contextmanager
def frozen() -> Iterator[None]:
    """Freeze all objects that exist before a case, so that no contender's collections visit other modules.

    The garbage collector itself stays on, as for users.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def measure(
    case: Case, timers: Mapping[str, Timer], manner: Manner, *, processes: Iterable[int] = ()
) -> Result:
    """Run the case's rounds. In each round every timer has one turn, and another timer is first.

    `processes` are the ids of other processes that work for these timers.
    """
    if manner.least:
        case = replace(case, round_seconds=min(case.round_seconds, 0.001))
    repetitions = {name: case.repetitions or _calibrate(timer, case) for name, timer in timers.items()}
    samples: dict[str, list[float]] = {name: [] for name in timers}
    neighbours = Neighbours(processes)
    order = list(timers)
    for _ in range(manner.rounds(case)):
        for name in order:
            done = repetitions[name] * case.per
            samples[name].append(timers[name](repetitions[name]) / done)
        order.append(order.pop(0))
    if manner.least:
        samples = {name: [min(found)] for name, found in samples.items()}
    first = samples[OURS] if OURS in samples else next(iter(samples.values()))
    summaries = {name: Summary.of(samples[name], repetitions[name], first) for name in timers}
    return Result(case.name, summaries, neighbours.cores(), case.unit, manner.least)


def check_agreement(name: str, figures: Mapping[str, Sequence[float]]) -> None:
    """Compare the results of the contenders' checks."""
    (first, expected), *others = figures.items()
    for other, found in others:
        if len(found) != len(expected) or not all(
            isclose(a, b, rel_tol=2e-3) for a, b in zip(found, expected, strict=True)
        ):
            raise RuntimeError(
                f"{name}: {other} and {first} do different work: {list(found)} and {list(expected)}; "
                "compare them before comparing times"
            )


def _calibrate(timer: Timer, case: Case) -> int:
    timer(1)  # the very first call loads and initializes things
    repetitions = 1
    while True:
        seconds = min(timer(repetitions) for _ in range(2))
        if seconds >= case.round_seconds / 4:
            return max(1, round(repetitions * case.round_seconds / seconds))
        repetitions *= min(64, max(4, round(case.round_seconds / 2 / seconds)))
