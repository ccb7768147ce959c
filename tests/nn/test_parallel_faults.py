"""Jobs on Ray's own local cluster in which something goes wrong. Skipped without Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from nn import parallel
from tests.nn import parallel_jobs as jobs
from tests.nn.parallel_cluster import (
    ROOT,
    expected,
    files_in_memory,
    live_actors,
    nodes,
    places_of_actors,
    run,
    wait_until,
    wait_until_gone,
)

ray = pytest.importorskip("ray")
train = pytest.importorskip("ray.train")

# Ray's own warnings are not ours to answer for.
pytestmark = pytest.mark.filterwarnings("default")


def moments(usual: int) -> list[Any]:
    """Return seeds of random moments: `make test-ray` takes the usual ones, `make soak` all FAULT_MOMENTS.

    Each has a job of its own, some ten seconds long.
    """
    count = int(os.environ.get("FAULT_MOMENTS", "20"))
    return [
        pytest.param(i, id=f"moment-{i}", marks=pytest.mark.soak if i >= usual else ()) for i in range(count)
    ]


def assert_learnt(result: Any, steps: int) -> None:
    found = jobs.values_in(result)
    for name, values in expected(steps).items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12)


def test_a_killed_worker_costs_at_most_the_steps_since_the_last_checkpoint(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    config = {
        "steps": 60, "every": 10, "what": "kill", "worker": 1, "at": 33, "once": str(tmp_path / "once"),
    }  # fmt: skip
    result = run(jobs.train, config, tmp_path, failures=1)
    assert (tmp_path / "once").exists()
    assert result.metrics["step"] == 60
    assert result.metrics["began_at"] >= 10  # the third report waits until Ray has taken the first
    assert_learnt(result, 60)
    assert parallel.statistics().live_count == 0


def test_a_worker_that_is_killed_in_mid_backward_leaves_the_bits_of_an_undisturbed_job(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    config = {
        "steps": 60, "every": 10, "what": "kill", "worker": 1, "in_backward_of": 33, "bucket_bytes": 1000,
        "once": str(tmp_path / "once"),
    }  # fmt: skip
    result = run(jobs.train, config, tmp_path, failures=1)
    assert (tmp_path / "once").exists()
    assert 10 <= result.metrics["began_at"] <= 30
    assert_learnt(result, 60)
    assert parallel.statistics().live_count == 0
    # The undisturbed job has the same bits: the same workers have added the same numbers in the same order.
    undisturbed = run(jobs.train, {"steps": 60, "bucket_bytes": 1000}, tmp_path / "undisturbed")
    expected_values, found = jobs.values_in(undisturbed), jobs.values_in(result)
    assert all(found[name].tobytes() == values.tobytes() for name, values in expected_values.items())


def test_a_worker_that_is_killed_while_others_connect_costs_an_attempt(
    cluster_is_left_clean: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from nn.parallel import jobs as jobs_of_train
    from tests.nn.parallel_connecting import KilledWhileOthersConnect

    once = tmp_path / "once"
    config = partial(KilledWhileOthersConnect, once=str(once))
    monkeypatch.setattr(jobs_of_train, "ExchangeConfig", config)
    # Three of four processors: the second attempt has to have those of the first.
    result = run(jobs.train, {"steps": 20}, tmp_path, count=3, failures=1)
    assert once.exists()
    assert_learnt(result, 20)


def test_machines_that_do_not_connect_are_waited_for_and_reported(cluster: None) -> None:
    pytest.importorskip("torch")
    told = ray.get(ray.remote(num_cpus=0)(jobs.connect_to_nobody).remote())
    assert told.startswith("waited 0.5 s for the workers of the other machines to connect")


def test_a_killed_worker_is_last_seen_at_the_step_before(cluster_is_left_clean: None, tmp_path: Path) -> None:
    config = {"steps": 60, "what": "kill", "worker": 1, "at": 33, "pause": 0.02}
    with pytest.raises(train.TrainingFailedError):
        run(jobs.train, config, tmp_path)
    lost = parallel.statistics().workers[1]
    assert lost.is_last_seen
    assert lost.step > 0
    assert "last seen" in str(parallel.statistics())


def test_an_exception_in_one_worker_is_reported_with_its_lines_and_stops_the_others(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    config = {"steps": 1000, "what": "raise", "worker": 1, "at": 5}
    with pytest.raises(train.TrainingFailedError, match="this worker is out of patience") as caught:
        run(jobs.train, config, tmp_path)
    assert "parallel_jobs.py" in str(caught.value)
    assert "in at" in str(caught.value)
    figures = parallel.statistics().workers
    assert "stopped by ValueError: this worker is out of patience" in figures[1].lost
    assert figures[1].step == 6
    assert figures[0].is_last_seen
    assert figures[0].step <= 6


def test_the_error_of_a_loop_is_reported_even_without_the_board(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    with (
        pytest.warns(RuntimeWarning, match="the reports of the workers are lost"),
        pytest.raises(train.TrainingFailedError, match="the error of the loop itself"),
    ):
        run(jobs.lose_the_board, {"fails": True}, tmp_path, count=1)


def test_the_result_of_a_job_is_returned_also_where_the_board_is_gone(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    with pytest.warns(RuntimeWarning, match="the reports of the workers are lost"):
        result = run(jobs.lose_the_board, {"fails": False}, tmp_path, count=1)
    assert result.metrics["step"] == 1


def test_a_job_ends_right_when_the_process_of_its_board_ends(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    config = {"steps": 20, "every": 10, "ended": str(tmp_path / "ended")}
    # A restart takes as long as Ray needs for a process. Earlier attempts fail.
    result = run(jobs.train_while_the_board_restarts, config, tmp_path, failures=20)
    assert result.metrics["step"] == 20
    assert_learnt(result, 20)
    assert parallel.statistics().workers[0].step == 20


@pytest.mark.parametrize("moment", moments(1))
@pytest.mark.parametrize("what", ["kill", "raise"])
def test_a_job_ends_right_whenever_a_worker_is_killed_or_raises(
    what: str, moment: int, cluster_is_left_clean: None, tmp_path: Path
) -> None:
    numbers = np.random.default_rng([moment, what == "raise"])
    once = tmp_path / "once"
    # Without the fault the loop takes longer than any of the moments.
    config = {
        "steps": 60, "every": 10, "pause": 0.02, "what": what, "once": str(once),
        "worker": int(numbers.integers(2)), "after": float(numbers.uniform(0, 1.2)),
    }  # fmt: skip
    result = run(jobs.train, config, tmp_path, failures=1)
    assert once.exists()
    assert result.metrics["step"] == 60
    assert_learnt(result, 60)
    assert parallel.statistics().live_count == 0
    assert parallel.memory().bytes_in_store == 0


@pytest.mark.parametrize("moment", moments(2))
def test_ctrl_c_ends_a_job_and_its_actors_at_any_moment(
    moment: int, cluster_is_left_clean: None, tmp_path: Path
) -> None:
    address = ray.get_runtime_context().gcs_address
    program = [sys.executable, "-m", "tests.nn.parallel_interrupted", address, str(moment), str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is left, and the next job ends right" in done.stdout, done.stdout + done.stderr


def test_slow_worker_is_awaited_and_named_after_the_timeout(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    # Before the last step, so that hardly anything else is waited for after it.
    config = {"steps": 10, "what": "sleep", "seconds": 8.0, "worker": 1, "at": 8}
    assert_learnt(run(jobs.train, config, tmp_path), 10)
    figures = parallel.statistics().workers
    assert figures[0].seconds_waited > 1
    assert figures[0].seconds_waited > figures[1].seconds_waited
    config.update(seconds=600.0, patience=2.0)
    with pytest.raises(train.TrainingFailedError, match="for worker 1 to exchange gradients") as caught:
        run(jobs.train, config, tmp_path)
    assert "ExchangeTimeoutError" in str(caught.value)
    assert "ExchangeTimeoutError" in parallel.statistics().workers[0].lost


def test_ray_tune_runs_a_job_for_each_trial(cluster_is_left_clean: None, tmp_path: Path) -> None:
    from ray import tune

    found = tune.Tuner(
        jobs.try_one,
        param_space={"lr": tune.grid_search([0.0, 0.05]), "folder": str(tmp_path / "jobs")},
        run_config=tune.RunConfig(storage_path=str(tmp_path / "trials")),
    ).fit()
    assert not found.errors
    best = found.get_best_result("loss", "min")
    assert best.config["lr"] == 0.05
    assert sorted(it.metrics["alive"] for it in found) == [0, 0]
    assert sorted(it.metrics["step"] for it in found) == [20, 20]


@pytest.fixture
def three_nodes() -> Iterator[Any]:
    """A head where no worker has room, and two nodes for a worker each or both on one."""
    pytest.importorskip("torch")
    with nodes([0, 2, 2]) as made:
        yield made


def test_the_board_is_on_the_machine_that_has_started_the_job(three_nodes: Any) -> None:
    here = ray.get_runtime_context().get_node_id()
    for _ in range(6):  # Ray chooses at random where it is not told
        with parallel.Watch() as watch:
            assert watch.board is not None
            assert watch.board.read() == {}  # it runs
            assert wait_until(lambda: places_of_actors() == [("BoardActor", here)]), places_of_actors()


def test_a_straggler_alone_on_its_machine_is_named(three_nodes: Any, tmp_path: Path) -> None:
    config = {
        "steps": 10, "what": "sleep", "seconds": 600.0, "patience": 20.0, "at": 4, "folder": str(tmp_path),
    }  # fmt: skip
    # Two workers fit on a machine: one of three is alone.
    with pytest.raises(train.TrainingFailedError) as caught:
        run(jobs.sleep_where_nobody_else_is, config, tmp_path, count=3)
    alone = Path(tmp_path, "alone").read_text(encoding="utf-8")
    assert f"for worker {alone} (" in str(caught.value)
    assert "last seen after step" in str(caught.value)
    assert "to exchange gradients" in str(caught.value)


def test_a_job_continues_elsewhere_when_a_node_disappears(three_nodes: Any, tmp_path: Path) -> None:
    running = tmp_path / "running"
    config = {"steps": 60, "every": 10, "pause": 0.1, "running": str(running), "nodes": 2}
    spread = train.ScalingConfig(num_workers=2, placement_strategy="SPREAD")
    with a_node_removed(three_nodes, running):
        result = run(jobs.train, config, tmp_path, failures=3, scaling_config=spread)
    assert result.metrics["nodes"] == 1
    assert_learnt(result, 60)
    assert parallel.statistics().live_count == 0


@contextmanager
def a_node_removed(cluster: Any, running: Path) -> Iterator[None]:
    """Remove a node when the file `running` is there; the block must leave no actors and no shared memory.

    The processors and the store of the node do not come back.
    """
    removed = []
    files = files_in_memory()

    def remove() -> None:
        if wait_until(running.exists):
            node = next(iter(cluster.worker_nodes))
            cluster.remove_node(node, allow_graceful=False)
            removed.append(node)

    remover = Thread(target=remove)
    remover.start()
    yield
    remover.join()
    assert removed
    assert wait_until(lambda: live_actors() == []), live_actors()
    assert wait_until_gone(files_in_memory() - files), files_in_memory() - files


@pytest.fixture
def a_node_for_each_worker() -> Iterator[Any]:
    """A head where no worker has room, and three nodes for a worker each."""
    pytest.importorskip("torch")
    # Ray Train may not know yet that the node is gone: it waits for three workers before it takes two.
    with nodes([0, 1, 1, 1], RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S=60) as made:
        yield made


def test_a_job_of_three_workers_continues_with_two(a_node_for_each_worker: Any, tmp_path: Path) -> None:
    running = tmp_path / "running"
    config = {"steps": 60, "every": 10, "pause": 0.1, "running": str(running), "nodes": 3}
    two_or_three = train.ScalingConfig(num_workers=(2, 3))
    with a_node_removed(a_node_for_each_worker, running):
        result = run(jobs.train, config, tmp_path, failures=5, scaling_config=two_or_three)
    assert result.metrics["workers"] == 2
    assert result.metrics["began_at"] >= 10
    assert_learnt(result, 60)  # each step is over the same 24 samples, by two workers or by three
    assert parallel.statistics().live_count == 0
    assert sorted(parallel.statistics().workers) == [0, 1]
