"""Statistics of one worker ("figures") as a row of integers, which each step writes to shared memory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

from nn.parallel import store
from scopes import DisposeStatistics, statistics
from scopes._shared.naming import set_module
from tensor import memory


@set_module("nn.parallel")
@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """The last reported figures of one worker.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.parallel.statistics().workers[0].rank
    0
    """

    rank: int
    #: The number of exchanges of gradients, or of optimizer steps of PyTorch.
    step: int
    #: The time of the report, in seconds since the epoch.
    seen_at: float
    #: The seconds it has waited for others. The slowest worker waits least.
    seconds_waited: float
    #: The memory of its process, in bytes; 0 if the system does not report it.
    bytes_of_process: int
    #: The number of store objects that its tensors and arrays hold, and their bytes.
    store_views: int
    bytes_in_store: int
    disposables: DisposeStatistics
    memory: memory.MemoryStatistics
    #: Why the worker was lost. Empty while it runs, or after a normal end.
    lost: str = ""

    @property
    def is_last_seen(self) -> bool:
        """Whether the worker was lost. Then these are its last figures."""
        return bool(self.lost)


_counts_of = attrgetter(*[field.name for field in fields(DisposeStatistics)])

#: The length of a row.
WIDTH: Final = 6 + 7 + len(memory.MemoryStatistics._fields)


def row_of_now(step: int, waited: float, process: int) -> list[int]:
    """Return this process's current figures. `process` is its last measured size in bytes."""
    views, nbytes = store.figures()
    return [
        step,
        time.time_ns(),
        round(waited * 1e9),
        process,
        views,
        nbytes,
        *_counts_of(statistics.snapshot()),
        *memory.statistics(),
    ]


def figures_of(rank: int, row: Sequence[int], lost: str = "") -> WorkerFigures:
    """Return the figures in a row."""
    step, at, waited, nbytes, views, stored, *others = [int(x) for x in row]
    return WorkerFigures(
        rank,
        step,
        at / 1e9,
        waited / 1e9,
        nbytes,
        views,
        stored,
        DisposeStatistics(*others[:7]),
        memory.MemoryStatistics(*others[7:]),
        lost,
    )


def bytes_of_process() -> int:
    """Return the private memory of this process, without files and shared memory, in bytes."""
    try:
        with open("/proc/self/statm", "rb", 0) as file:  # noqa: PTH123  # each step; half the time of Path.open
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
