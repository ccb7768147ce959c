"""A Ray actor that collects the reports of a job's workers for the process that started the job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from nn.parallel.errors import ExchangeTimeoutError, WorkerLostError, require
from nn.parallel.posts import Position, WorkerReport

# The seconds to wait for the last report of a worker, and for an answer of the actor. Ray reports a dead
# process or machine earlier. A busy machine may take a minute to start the actor.
_TIMEOUT = 120.0


@dataclass
class _Message:
    """Values of worker 0 for `receivers` other workers, as references to Ray's object store."""

    has_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    references: list[Any] = field(default_factory=list)
    receivers: int = 0


class BoardActor:
    """Actor that stores reports, positions of waiting workers, and sent values."""

    def __init__(self) -> None:
        self._reports: dict[int, WorkerReport] = {}
        self._messages: dict[str, _Message] = {}
        self._waiting: dict[int, Position] = {}
        self._count: int | None = None

    async def begin(self, count: int) -> None:
        """Start a group of `count` workers: delete reports of ranks from `count` on, and all positions."""
        self._count = count
        self._reports = {rank: report for rank, report in self._reports.items() if rank < count}
        self._waiting.clear()

    async def post(self, rows: dict[int, WorkerReport]) -> None:
        """Store the `rows`, reports by rank, that are newer. Leaks and traces stay until new ones arrive."""
        for rank, report in rows.items():
            if self._count is not None and rank >= self._count:
                continue
            known = self._reports.get(rank)
            if known is not None:
                is_final = known.lost or known.has_ended
                if report.row[1] < known.row[1] or (report.row[1] == known.row[1] and is_final):
                    continue
                report.where = report.where or known.where
                report.leaks = known.leaks if report.leaks is None else report.leaks
                if not report.trace:
                    report.trace, report.trace_began_at = known.trace, known.trace_began_at
            self._reports[rank] = report

    async def read(self) -> dict[int, WorkerReport]:
        """Return all reports, by rank."""
        return dict(sorted(self._reports.items()))

    async def set_waiting(self, rank: int, position: Position | None) -> None:
        """Store the position where a worker waits for others; None removes it."""
        if position is None:
            self._waiting.pop(rank, None)
        else:
            self._waiting[rank] = position

    async def read_waiting(self) -> dict[int, Position]:
        """Return the positions of waiting workers."""
        return dict(self._waiting)

    async def send(self, key: str, references: list[Any], receivers: int) -> None:
        """Store references for `receivers` other workers."""
        message = self._messages.setdefault(key, _Message())
        message.references, message.receivers = references, receivers
        message.has_arrived.set()

    async def receive(self, key: str) -> list[Any]:
        """Wait until values are sent under `key`, and return their references."""
        message = self._messages.setdefault(key, _Message())
        await message.has_arrived.wait()
        message.receivers -= 1
        if message.receivers == 0:
            del self._messages[key]
        return message.references


class Board:
    """Handle of a `BoardActor`. Each worker has a copy."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    @classmethod
    def start(cls) -> Board:
        """Start the actor on this machine, so that it survives the machines of workers.

        It reserves no processor. If its process dies, Ray restarts it. The new actor has no reports until the
        workers send new ones.
        """
        ray = require("ray")
        scheduling = require("ray.util.scheduling_strategies")
        if not ray.is_initialized():
            ray.init(include_dashboard=False)
        # Use a hard affinity: Ray ignores a soft one of actors that need no resources.
        node = ray.get_runtime_context().get_node_id()
        on_this_node = scheduling.NodeAffinitySchedulingStrategy(node, soft=False)
        remote = ray.remote(
            num_cpus=0, max_concurrency=10_000, max_restarts=-1, scheduling_strategy=on_this_node
        )
        return cls(remote(BoardActor).remote())

    def begin(self, count: int) -> None:
        """Report the start of a group of `count` workers, possibly fewer than before."""
        require("ray").get(self._actor.begin.remote(count), timeout=_TIMEOUT)

    def post(self, reports: dict[int, WorkerReport], *, wait: bool = False) -> None:
        """Store the `reports` by rank: see ``Group.reports``. Wait for an answer only if `wait`."""
        posting = self._actor.post.remote(reports)
        if wait:
            require("ray").get(posting, timeout=_TIMEOUT)

    def read(self) -> dict[int, WorkerReport]:
        """Return the reports of all workers."""
        found: dict[int, WorkerReport] = require("ray").get(self._actor.read.remote(), timeout=_TIMEOUT)
        return found

    def set_waiting(self, rank: int, position: Position | None) -> None:
        """Report the position where this worker waits, or None if it does not. Do not wait for an answer."""
        self._actor.set_waiting.remote(rank, position)

    def read_waiting(self) -> dict[int, Position]:
        """Return the reported positions of waiting workers."""
        found: dict[int, Position] = require("ray").get(self._actor.read_waiting.remote(), timeout=_TIMEOUT)
        return found

    def send(self, key: str, values: list[Any], receivers: int) -> None:
        """Put `values` into the object store, for `receivers` other workers. Without them, do nothing."""
        if receivers == 0:
            return
        ray = require("ray")
        ray.get(self._actor.send.remote(key, [ray.put(values)], receivers))

    def receive(self, key: str, timeout: float) -> list[Any]:
        """Return the values that worker 0 sends. Arrays stay in the object store.

        Raises
        ------
        ExchangeTimeoutError, WorkerLostError
            If it sends none in time, or ends before they arrive.
        """
        ray, errors = require("ray"), require("ray.exceptions")
        try:
            (reference,) = ray.get(self._actor.receive.remote(key), timeout=timeout)
            found: list[Any] = ray.get(reference, timeout=timeout)
        except errors.GetTimeoutError as error:
            raise ExchangeTimeoutError(
                f"waited {timeout:.1f} s for worker 0 to send the first values: it has failed, or its calls "
                "of parallel.prepare() differ from those of this worker"
            ) from error
        except errors.ObjectLostError as error:  # the store deletes an object when its owner ends
            raise WorkerLostError(
                "worker 0 has ended or was killed while the others waited for it to send the first values"
            ) from error
        return found

    def stop(self) -> None:
        """End the actor."""
        require("ray").kill(self._actor)
