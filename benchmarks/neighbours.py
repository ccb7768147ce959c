"""How much of the machine other processes used during a measurement.

On a machine with two cores, one busy process makes an op on two threads wait for the scheduler: PyTorch took
8 ms instead of 8 us. Such figures must not count as results.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")
TICKS = os.sysconf("SC_CLK_TCK") if STAT.exists() else 1

DISTURBED = 0.1
"""From how many cores on the neighbours' use makes a measurement doubtful."""


class _Reading(NamedTuple):
    when: float
    machine: float
    own: float


class Neighbours:
    """Measures from its creation on. `processes` are the ids of the benchmark's other processes."""

    def __init__(self, processes: Iterable[int] = ()) -> None:
        self._processes = tuple(processes)
        self._start = _read(self._processes)

    def cores(self) -> float | None:
        """Return the mean number of cores that other processes used since the start; None if unknown."""
        start, now = self._start, _read(self._processes)
        if start is None or now is None:
            return None
        used = (now.machine - start.machine) - (now.own - start.own)
        return max(0.0, used / (now.when - start.when))


def _read(processes: tuple[int, ...]) -> _Reading | None:
    """Read CPU seconds of the machine (Linux only), and of these processes with their finished children."""
    if not STAT.exists():
        return None
    # proc(5): user, nice, system, idle, iowait, irq, softirq, steal, all in clock ticks.
    user, nice, system, _, _, irq, softirq, steal = map(
        int, STAT.read_text(encoding="utf-8").split(maxsplit=9)[1:9]
    )
    machine = (user + nice + system + irq + softirq + steal) / TICKS
    return _Reading(time.monotonic(), machine, sum(os.times()[:4]) + sum(map(_used_by, processes)))


def _used_by(process: int) -> float:
    # The name, the second field, is in brackets, and may contain any characters.
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS
