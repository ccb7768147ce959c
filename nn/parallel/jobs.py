"""Ray Train jobs whose workers exchange gradients. Imported only if Ray is installed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError
from ray.train.backend import Backend, BackendConfig

from nn.parallel import group as groups
from nn.parallel import regions
from nn.parallel.errors import require
from nn.parallel.links import Link
from tensor import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from nn.parallel.board import Board


# Extra seconds beyond the timeout for the workers to connect: each first imports the loop's modules.
_TO_CONNECT = 120.0
# The seconds for workers to leave the group. Killed workers never leave.
_TO_LEAVE = 5.0


class _Exchange(Backend):  # type: ignore[misc]  # Ray is an extra, so mypy skips its types
    """Backend of Ray Train that connects the started workers as a group."""

    def on_start(self, worker_group: Any, backend_config: ExchangeConfig) -> None:
        """Send each worker its place. The workers connect when their loops begin.

        They do not connect here: if a worker is lost before its loop begins, Ray's second version keeps the
        processors of all workers, and its next attempt waits for free ones.
        """
        nodes = worker_group.execute(_node_of_this_process)
        if backend_config.board is not None:
            with suppress(RayError):  # the actor's process has ended: Ray restarts it without reports
                backend_config.board.begin(len(nodes))
        token = f"{backend_config.job}.{uuid.uuid4().hex[:8]}"
        started = [
            worker_group.execute_single_async(place.rank, _expect, place, token, ranks, backend_config)
            for place, ranks in places_of(nodes)
        ]
        ray.get(started)

    def on_shutdown(self, worker_group: Any, backend_config: ExchangeConfig) -> None:
        """Make the remaining workers leave the group."""
        leaving = worker_group.execute_async(_leave, backend_config.job)
        ray.wait(leaving, num_returns=len(leaving), timeout=_TO_LEAVE)


@dataclass
class ExchangeConfig(BackendConfig):  # type: ignore[misc]  # Ray is an extra, so mypy skips its types
    """Settings that the workers of a `Trainer` need to connect."""

    timeout: float = groups.TIMEOUT
    #: The number of processors of a worker.
    threads: int = 1
    board: Board | None = None
    job: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def backend_cls(self) -> type[Backend]:
        """The backend class that Ray Train uses after it has started the workers."""
        return _Exchange

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that Ray's dashboard shows."""
        return {"timeout": self.timeout}

    def connect(self, place: groups.Place, token: str, ranks: tuple[int, ...]) -> groups.Group:
        """Wait for all workers, and return the group. Each worker calls this."""
        to_connect = self.timeout + _TO_CONNECT
        link = None
        if place.node_count > 1 and place.local_rank == 0:
            link = Link(token, place.node_rank, place.node_count, to_connect)
        return groups.Group(
            place,
            token,
            ranks=ranks,
            link=link,
            board=self.board,
            timeout=self.timeout,
            to_connect=to_connect,
        )


def make_trainer(loop: Callable[..., Any], config: ExchangeConfig, options: dict[str, Any]) -> Any:
    """Return a ``DataParallelTrainer`` of Ray Train's second version if switched on, else the first."""
    try:
        from ray.train.v2._internal.constants import is_v2_enabled
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    except ImportError:  # Ray before 2.43
        is_second = False
    else:
        is_second = is_v2_enabled()
    if not is_second:
        from ray.train.data_parallel_trainer import DataParallelTrainer
    return DataParallelTrainer(loop, backend_config=config, **options)


def places_of(nodes: list[str]) -> list[tuple[groups.Place, tuple[int, ...]]]:
    """Return the place of each worker, and the ranks on its machine. `nodes` names the workers' machines."""
    machines: dict[str, list[int]] = {}
    for rank, node in enumerate(nodes):
        machines.setdefault(node, []).append(rank)
    found = []
    for rank, node in enumerate(nodes):
        ranks = tuple(machines[node])
        place = groups.Place(
            rank, len(nodes), ranks.index(rank), len(ranks), list(machines).index(node), len(machines)
        )
        found.append((place, ranks))
    return found


def _node_of_this_process() -> str:
    return str(ray.get_runtime_context().get_node_id())


def _expect(place: groups.Place, token: str, ranks: tuple[int, ...], config: ExchangeConfig) -> None:
    _limit_threads(config.threads)
    groups.expect(partial(config.connect, place, token, ranks))


def _leave(job: str) -> None:
    groups.leave()
    # Remove the files of a worker that was stopped while it waited for others to map them.
    regions.remove(f"{job}.")


def _limit_threads(max_threads: int) -> None:
    """Set the number of threads to the worker's number of processors.

    Ray Train counts the resources of a placement group twice, and sets ``OMP_NUM_THREADS`` to twice that
    number. NumPy's BLAS reads the variable: two workers on two cores took 2.5 times as long.
    """
    set_num_threads(min(get_num_threads(), max_threads))
    require("threadpoolctl").threadpool_limits(get_num_threads(), user_api="blas")
