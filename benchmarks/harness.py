"""Measure contenders alternately: many short rounds in one process, medians and quartiles."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.neighbours import DISTURBED, Neighbours

OURS = "ours"
NUMPY = "numpy"
TORCH = "torch"

Timer = Callable[[int], float]
"""Runs that many repetitions and returns the seconds that they took, setting up and clearing not counted.

Where the unit of a case is bytes, it returns how many bytes the work took.
"""


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work done by each contender.

    Attributes
    ----------
    name
        ``family/what``, which ``--only`` matches.
    build
        Makes a timer for each contender. Called when the case's turn comes, so that no case's memory lies
        beside another's.
    rounds
        How often each contender has its turn.
    round_seconds
        How long one turn shall take; the repetitions follow from it.
    repetitions
        A fixed number of repetitions in a turn, for work that only makes sense at that number.
    settle_seconds
        The pause before each turn. Thread pools (OpenBLAS, OpenMP) spin for a while after their last
        work and would take a core from the next contender.
    unit
        What the figures are: ``"seconds"`` or ``"bytes"``.
    """

    name: str
    build: Callable[[], Mapping[str, Timer]]
    rounds: int = 40
    round_seconds: float = 0.004
    repetitions: int | None = None
    settle_seconds: float = 0.003
    unit: str = "seconds"


@dataclass(frozen=True)
class Summary:
    """Seconds per repetition, or bytes, of one contender: quartiles over its rounds."""

    median: float
    lower_quartile: float
    upper_quartile: float
    rounds: int
    repetitions: int

    @classmethod
    def of(cls, samples: list[float], repetitions: int) -> "Summary":
        """Sum up the samples, each in seconds per repetition, or bytes."""
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1, repetitions)
        lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, lower, upper, len(samples), repetitions)


@dataclass(frozen=True)
class Result:
    """What one case gave, by contender, and how many cores other processes used meanwhile."""

    name: str
    summaries: Mapping[str, Summary]
    neighbours_cores: float | None
    unit: str

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes used so much of the machine that the times are doubtful."""
        if self.unit != "seconds" or self.neighbours_cores is None:
            return False
        return self.neighbours_cores >= DISTURBED

    def ratio(self, other: str) -> float | None:
        """Return the other's median over ours: above 1, ours is better. None if either is missing."""
        if OURS not in self.summaries or other not in self.summaries:
            return None
        return self.summaries[other].median / self.summaries[OURS].median


def timed(loop: Callable[[int], object]) -> Timer:
    """Make a timer of a function that does the work that many times and sets nothing up."""

    def run(repetitions: int) -> float:
        start = time.perf_counter()
        loop(repetitions)
        return time.perf_counter() - start

    return run


def measure(case: Case, *, quick: bool = False) -> Result:
    """Run the case's rounds; in each, every contender has one turn, and the first is another each time.

    The garbage collector stays on, as it is for users, but what is there before the case is frozen: a
    contender must not pay for walking the modules of the others.
    """
    timers = case.build()
    gc.collect()
    gc.freeze()
    try:
        repetitions = {name: case.repetitions or _calibrate(timer, case) for name, timer in timers.items()}
        samples: dict[str, list[float]] = {name: [] for name in timers}
        neighbours = Neighbours()
        order = list(timers)
        for _ in range(min(case.rounds, max(3, case.rounds // 4)) if quick else case.rounds):
            for name in order:
                time.sleep(case.settle_seconds)
                if case.repetitions is None:
                    timers[name](1)  # caches and threads are warm for this contender, not for the last
                samples[name].append(timers[name](repetitions[name]) / repetitions[name])
            order.append(order.pop(0))
        cores = neighbours.cores()
    finally:
        gc.unfreeze()
    summaries = {name: Summary.of(samples[name], repetitions[name]) for name in timers}
    return Result(case.name, summaries, cores, case.unit)


def _calibrate(timer: Timer, case: Case) -> int:
    timer(1)  # the very first call loads and initializes things
    repetitions = 1
    while True:
        seconds = min(timer(repetitions) for _ in range(3))
        if seconds >= case.round_seconds / 4:
            return max(1, round(repetitions * case.round_seconds / seconds))
        repetitions *= 4
