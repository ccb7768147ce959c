"""Clusters on this machine for the tests of `nn.parallel`, jobs on them, and what these leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import nn
import tensor
from nn import parallel
from nn.parallel import regions
from tests.nn import parallel_training as training

ROOT = Path(__file__).parents[2]
# Actors that Ray keeps for the cluster, and not for a job.
_OF_THE_CLUSTER = {"ActorLocationTracker", "_AutoscalingCoordinatorActor", "_StatsActor"}


@contextmanager
def environment() -> Iterator[None]:
    """Set what every process of a cluster is started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        # Else other programs of a busy machine come first, and jobs take minutes.
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "120")
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


def wait_until(is_true: Callable[[], bool], seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


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
    assert wait_until(lambda: files_in_memory() <= files), files_in_memory() - files


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
