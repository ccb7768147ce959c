"""The figures of one worker as a row of whole numbers, which is written at each step without allocating."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from nn.parallel import store
from scopes import DisposeStatistics, statistics
from tensor import memory

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """What one worker last told of itself.

    Examples
    --------
    >>> from nn import parallel
    >>> parallel.statistics().workers[0].rank
    0
    """

    rank: int
    #: How many steps it had made: how often gradients were exchanged.
    step: int
    #: When, in seconds since the epoch.
    seen_at: float
    #: What it had waited for others, in seconds; of all workers a straggler waits least.
    seconds_waited: float
    #: The memory of its process, in bytes; 0 where the system does not tell.
    bytes_of_process: int
    #: Objects of the store that its tensors and arrays hold, and their bytes.
    store_views: int
    bytes_in_store: int
    disposables: DisposeStatistics
    memory: memory.MemoryStatistics
    #: Why nothing newer will come: the worker is gone. Empty while it is there, or has ended well.
    lost: str = ""

    @property
    def is_last_seen(self) -> bool:
        """Whether the worker is gone, and these are its last figures."""
        return bool(self.lost)


_counts_of = attrgetter(*[field.name for field in fields(DisposeStatistics)])

#: How many numbers a row has.
WIDTH: Final = 6 + 7 + len(memory.MemoryStatistics._fields)


def row_of_now(step: int, waited: float, process: int) -> list[int]:
    """Return this process's figures, with the `bytes_of_process` that were measured last."""
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
    """Return what a row says."""
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
    """Return how much memory this process has for itself, without what it shares: files and shared memory."""
    try:
        with open("/proc/self/statm", "rb", 0) as file:  # noqa: PTH123  # each step, half the time
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
