"""Statistics, memory and leaks of all workers of a job: sums and figures of each worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from nn.parallel import group as groups
from nn.parallel import watching
from nn.parallel.figures import WorkerFigures, figures_of
from nn.parallel.leak_reports import ClusterLeaks, merged
from scopes import DisposeStatistics, is_tracking
from scopes import leaks as leaks_here
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from tensor.memory import MemoryStatistics


@set_module("nn.parallel")
@dataclass(frozen=True, slots=True)
class ClusterStatistics:
    """Dispose statistics of all workers; ``str`` is a table."""

    #: The sum over all workers.
    total: DisposeStatistics
    #: The figures of each worker by rank; for a lost worker its last ones.
    workers: Mapping[int, WorkerFigures]

    @property
    def live_count(self) -> int:
        """The number of living disposables in all workers."""
        return self.total.live_count

    def __str__(self) -> str:
        rows = [
            f"worker {rank}: step {worker.step:,}, waited {worker.seconds_waited:.3f} s; "
            f"{worker.disposables}{_last_seen(worker)}"
            for rank, worker in self.workers.items()
        ]
        return "\n".join([f"{len(rows)} worker{'s' * (len(rows) != 1)}: {self.total}", *rows])


@set_module("nn.parallel")
@dataclass(frozen=True, slots=True)
class ClusterMemory:
    """The memory of all workers, in bytes; ``str`` is a table."""

    #: The sum over all workers. Workers may have their peaks at different times, so the sum of peaks is an
    #: upper bound.
    total: MemoryStatistics
    #: The private memory of the processes, without shared memory.
    bytes_of_processes: int
    #: The bytes of the object store that tensors and arrays hold. A shared object counts for each worker.
    bytes_in_store: int
    #: The figures of each worker by rank; for a lost worker its last ones.
    workers: Mapping[int, WorkerFigures]

    def __str__(self) -> str:
        rows = [
            f"worker {rank}: {format_bytes(worker.memory.bytes_live)} live, "
            f"{format_bytes(worker.memory.bytes_peak)} at most, {format_bytes(worker.memory.bytes_cached)} "
            f"cached, {format_bytes(worker.bytes_of_process)} of the process, "
            f"{format_bytes(worker.bytes_in_store)} in the store{_last_seen(worker)}"
            for rank, worker in self.workers.items()
        ]
        head = (
            f"{len(rows)} worker{'s' * (len(rows) != 1)}: {format_bytes(self.total.bytes_live)} live, "
            f"{format_bytes(self.bytes_of_processes)} of the processes, {format_bytes(self.bytes_in_store)} "
            "in the store"
        )
        return "\n".join([head, *rows])


def statistics() -> ClusterStatistics:
    """Return the dispose statistics of all workers: sums and figures of each worker.

    Inside a job, it returns this worker's current figures, and the last reported figures of other workers. In
    the process that started a job, it returns the last reports of the workers, during the job and until
    another job ends; `scopes.statistics` and `tensor.memory` have the figures of that process itself. Without
    a job, the process is the only worker. If the machine that started the job does not answer a
    worker within two minutes, the function warns, and figures of other workers may be missing.

    Examples
    --------
    >>> from nn import parallel
    >>> found = parallel.statistics()
    >>> found.live_count == sum(worker.disposables.live_count for worker in found.workers.values())
    True
    """
    workers = _workers()
    total = DisposeStatistics()
    for worker in workers.values():
        total += worker.disposables
    return ClusterStatistics(total, workers)


def memory() -> ClusterMemory:
    """Return the memory of all workers, in the same cases as `statistics`.

    Examples
    --------
    >>> from nn import parallel
    >>> found = parallel.memory()
    >>> found.total.bytes_live == sum(worker.memory.bytes_live for worker in found.workers.values())
    True
    """
    workers = _workers()
    figures = zip(*[worker.memory for worker in workers.values()], strict=True)
    return ClusterMemory(
        MemoryStatistics(*map(sum, figures)) if workers else MemoryStatistics(*[0] * 12),
        sum(worker.bytes_of_process for worker in workers.values()),
        sum(worker.bytes_in_store for worker in workers.values()),
        workers,
    )


def leaks() -> ClusterLeaks:
    """Return the living disposables of all workers by the line that created them.

    Workers track if the job was started with ``track=True``, and report when their loop has ended. A killed
    worker reports nothing. A report has two parts: the disposables alive after the loop (``rows``), and those
    alive at the loop's high-water mark (``highest``). Inside a job, a worker that tracks gets its own current
    leaks and the reports of ended workers. Otherwise the function reads the same reports as `statistics`.

    Examples
    --------
    >>> import nn, tensor
    >>> report = nn.parallel.leaks()
    >>> report.nbytes == sum(sum(row.sizes.values()) for row in report.rows)
    True
    """
    reports = watching.worker_reports()
    found = {rank: worker.leaks for rank, worker in reports.items() if worker.leaks is not None}
    if is_tracking() and (_is_in_job() or not reports):
        found[groups.rank()] = {
            "highest": None, "at_the_end": leaks_here().to_dict(), "leaking": [], "moments": [],
        }  # fmt: skip
    return merged(found, _workers())


def _workers() -> dict[int, WorkerFigures]:
    group = groups.current()
    reports = watching.worker_reports()
    found = {rank: figures_of(rank, worker.row, worker.lost) for rank, worker in reports.items()}
    if _is_in_job() or not found:
        for rank, worker in group.figures().items():
            if rank not in found or worker.seen_at >= found[rank].seen_at:
                found[rank] = worker
    return dict(sorted(found.items()))


def _is_in_job() -> bool:
    group = groups.current()
    return group.place.world_size > 1 or group.board is not None


def _last_seen(worker: WorkerFigures) -> str:
    if not worker.is_last_seen:
        return ""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(worker.seen_at))
    return f" (last seen {at}: {worker.lost})"
