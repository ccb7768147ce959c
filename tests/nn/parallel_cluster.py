"""Clusters on this machine for the tests of `nn.parallel`, jobs on them, and what these leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

import nn
import tensor
from nn import parallel
from nn.parallel import regions
from tests.nn import parallel_training as training

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
# Actors that Ray keeps for the cluster, and not for a job.
_OF_THE_CLUSTER = {"ActorLocationTracker", "_AutoscalingCoordinatorActor", "_StatsActor"}
# How long the machine may take for what takes a moment, in seconds, before a test takes it for hanging.
PATIENCE = 600
# Ray's own limits for the processes of a cluster, by the names of its environment variables: a busy machine
# is slow, and not broken. This process has read them when Ray was imported.
_LIMITS = {
    # Else other programs come first, and jobs take minutes.
    "RAY_worker_niceness": 0,
    "RAY_agent_register_timeout_ms": PATIENCE * 1000,
    "RAY_worker_register_timeout_seconds": PATIENCE,
    "RAY_raylet_client_num_connect_attempts": PATIENCE,
    "RAY_gcs_server_port_wait_time_s": PATIENCE,
    "RAY_gcs_rpc_server_connect_timeout_s": PATIENCE,
    "RAY_gcs_server_request_timeout_seconds": PATIENCE,
    "RAY_py_gcs_connect_timeout_s": PATIENCE,
    # One node is stopped by a test: connections to it are refused, which takes no time.
    "RAY_health_check_timeout_ms": PATIENCE * 1000,
    "RAY_actor_scheduling_queue_max_reorder_wait_seconds": PATIENCE,
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": PATIENCE,
    # Memory and disk belong to other programs too.
    "RAY_memory_monitor_refresh_ms": 0,
    "RAY_local_fs_capacity_threshold": 1,
}


# How often a cluster is started: Ray gives the agents of a node 15 s, which no setting changes.
_ATTEMPTS = 5


def start(cluster: Callable[[], T]) -> T:
    """Return what `cluster` returns, which starts one; try again where Ray was too slow."""
    import ray

    for _ in range(_ATTEMPTS - 1):
        try:
            return cluster()
        except Exception:  # noqa: BLE001  # Ray raises no other
            ray.shutdown()
    return cluster()


@contextmanager
def nodes(processors: Sequence[int], **limits: int) -> Iterator[Any]:
    """Start a cluster of nodes on this machine with so many processors each, as far as Ray knows.

    `limits` are more variables of the environment, for Ray.
    """
    import ray
    from ray.cluster_utils import Cluster

    def cluster() -> Any:
        made = Cluster()
        try:
            for count in processors:
                made.add_node(num_cpus=count, object_store_memory=100 * 2**20, include_dashboard=False)
            ray.init(made.address, logging_level="error", log_to_driver=False)
        except BaseException:
            made.shutdown()
            raise
        return made

    ray.shutdown()  # of the tests above: a process is in one cluster at a time
    with environment(**limits):
        made = start(cluster)
        try:
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@contextmanager
def environment(**limits: int) -> Iterator[None]:
    """Set what every process of a cluster is started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.delenv("OMP_NUM_THREADS", raising=False)  # Ray tells each worker a number of its own
        for name, value in {**_LIMITS, **limits}.items():
            patch.setenv(name, str(value))
        yield


def places_of_actors() -> list[tuple[str, str]]:
    """Return the classes of the jobs' actors that are alive, and the identifiers of their nodes."""
    from ray._private.state import actors

    alive = [
        (it["ActorClassName"], it["Address"]["NodeID"]) for it in actors().values() if it["State"] != "DEAD"
    ]
    return [(name, node) for name, node in alive if name not in _OF_THE_CLUSTER]


def live_actors() -> list[str]:
    return [name for name, _ in places_of_actors()]


def free(resource: str) -> float:
    import ray

    return float(ray.available_resources().get(resource, 0))


def files_in_memory() -> set[Path]:
    """Return the shared memory that has a name."""
    return set(regions.folder().glob(f"{regions.PREFIX}*"))


def wait_until(is_true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while True:
        now = time.monotonic()  # before the look: this thread may be stopped after it
        if is_true():
            return True
        if now > end:
            return False
        time.sleep(0.1)


def wait_until_gone(files: set[Path]) -> bool:
    """Wait until each of these files of shared memory has lost its name; others may come meanwhile."""
    return wait_until(lambda: not files.intersection(files_in_memory()))


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Hold that the block leaves neither actors nor objects nor claims to processors nor shared memory."""
    assert wait_until(lambda: live_actors() == []), live_actors()
    names = ("object_store_memory", "CPU")
    before = {name: free(name) for name in names}
    files = files_in_memory()
    yield
    assert wait_until(lambda: live_actors() == []), live_actors()
    for name, value in before.items():
        assert wait_until(lambda name=name, value=value: free(name) >= value), (name, free(name), value)
    # Another job of the machine may be about to map its own.
    assert wait_until_gone(files_in_memory() - files), files_in_memory() - files


def run(
    loop: Callable[..., Any],
    config: dict[str, Any] | None,
    folder: Path,
    count: int = 2,
    failures: int = 0,
    **options: Any,
) -> Any:
    from ray import train

    options.setdefault("scaling_config", train.ScalingConfig(num_workers=count))
    failure = train.FailureConfig(max_failures=failures)
    return parallel.Trainer(
        loop,
        train_loop_config=config,
        run_config=train.RunConfig(storage_path=str(folder), failure_config=failure),
        **options,
    ).fit()


@cache
def expected(steps: int) -> dict[str, Any]:
    """Return what one process with whole batches learns."""
    tensor.manual_seed(0)
    model = training.perceptron()
    optimizer = nn.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        x, y = training.part_of_batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return training.values_of(model)
