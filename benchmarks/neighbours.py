"""How much of the machine other processes used during a measurement.

One busy neighbour on a machine of two cores makes a two-threaded op wait for the scheduler: 8 ms instead
of 8 us were seen for PyTorch. Such figures must not pass for results.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")

DISTURBED = 0.1
"""From how many cores on the neighbours' use makes a measurement doubtful."""


class _Reading(NamedTuple):
    when: float
    machine: float
    own: float


class Neighbours:
    """Watches from its creation on."""

    def __init__(self) -> None:
        self._start = _read()

    def cores(self) -> float | None:
        """Return how many cores other processes used on average since the start; None where unknown."""
        start, now = self._start, _read()
        if start is None or now is None:
            return None
        used = (now.machine - start.machine) - (now.own - start.own)
        return max(0.0, used / (now.when - start.when))


def _read() -> _Reading | None:
    """Read CPU seconds of the machine (Linux only) and of this process with its finished children."""
    if not STAT.exists():
        return None
    # proc(5): user, nice, system, idle, iowait, irq, softirq, steal, all in clock ticks.
    user, nice, system, _, _, irq, softirq, steal = map(int, STAT.read_text().split(maxsplit=9)[1:9])
    machine = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return _Reading(time.monotonic(), machine, sum(os.times()[:4]))
