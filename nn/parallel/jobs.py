"""Jobs of Ray Train whose workers exchange gradients; imported where Ray is installed."""

from __future__ import annotations

import uuid
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
    from collections.abc import Callable

    from nn.parallel.board import Board


# What workers have more than the timeout to come to each other for the first time, in seconds: each imports
# what the loop needs before.
_TO_CONNECT = 120.0
# How long workers may take to leave the group, in seconds; those that are killed never do.
_PATIENCE = 5.0


class _Exchange(Backend):  # type: ignore[misc]  # Ray is an extra: its types are not looked at
    """Makes a group of the workers that Ray Train has started."""

    def on_start(self, worker_group: Any, backend_config: ExchangeConfig) -> None:
        """Tell each worker which one it is; they connect when their loops begin.

        Not here: where a worker is lost before its loop begins, Ray's second version keeps the processors of
        all of them, and its next attempt waits for others.
        """
        nodes = worker_group.execute(_node_of_this_process)
        if backend_config.board is not None:
            with suppress(
                RayError
            ):  # of a board whose process has ended: Ray starts it again, without figures
                backend_config.board.begin(len(nodes))
        token = f"{backend_config.job}.{uuid.uuid4().hex[:8]}"
        told = [
            worker_group.execute_single_async(place.rank, _expect, place, token, ranks, backend_config)
            for place, ranks in places_of(nodes)
        ]
        ray.get(told)

    def on_shutdown(self, worker_group: Any, backend_config: ExchangeConfig) -> None:
        """Let the workers leave the group, those that are there still."""
        left = worker_group.execute_async(_leave, backend_config.job)
        ray.wait(left, num_returns=len(left), timeout=_PATIENCE)


@dataclass
class ExchangeConfig(BackendConfig):  # type: ignore[misc]  # Ray is an extra: its types are not looked at
    """What the workers of a `Trainer` need to find each other."""

    timeout: float = groups.TIMEOUT
    #: How many processors a worker has.
    threads: int = 1
    board: Board | None = None
    job: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def backend_cls(self) -> type[Backend]:
        """What Ray Train calls when it has started the workers."""
        return _Exchange

    def to_dict(self) -> dict[str, Any]:
        """Return what Ray's dashboard shows."""
        return {"timeout": self.timeout}

    def connect(self, place: groups.Place, token: str, ranks: tuple[int, ...]) -> groups.Group:
        """Return the group, in each worker, when all have come."""
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
    except ImportError:  # of before 2.43
        is_second = False
    else:
        is_second = is_v2_enabled()
    if not is_second:
        from ray.train.data_parallel_trainer import DataParallelTrainer
    return DataParallelTrainer(loop, backend_config=config, **options)


def places_of(nodes: list[str]) -> list[tuple[groups.Place, tuple[int, ...]]]:
    """Return for each worker which one it is, and the ranks of all on its machine, named by `nodes`."""
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
    # Of a worker that is stopped while it waits for others to map them.
    regions.remove(f"{job}.")


def _limit_threads(most: int) -> None:
    """Compute on as many threads as the worker has processors.

    Ray Train tells its workers twice as many (``OMP_NUM_THREADS``), for it counts what a placement group has
    reserved once more, and NumPy's BLAS reads that: two workers on two cores took 2.5 times as long.
    """
    set_num_threads(min(get_num_threads(), most))
    require("threadpoolctl").threadpool_limits(get_num_threads(), user_api="blas")
