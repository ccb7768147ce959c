"""Jobs on Ray's own local cluster: training, faults, reports, the object store. Skipped without Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import parallel
from scopes import new_dispose_scope, track
from tests.nn import parallel_jobs as jobs
from tests.nn import parallel_training as training
from tests.nn.parallel_cluster import expected, free, nodes, run, wait_until
from tests.test_examples import load

ray = pytest.importorskip("ray")
train = pytest.importorskip("ray.train")

# Ray's own warnings are not ours to answer for.
pytestmark = pytest.mark.filterwarnings("default")


def test_a_job_trains_as_one_process_and_leaves_nothing(cluster_is_left_clean: None, tmp_path: Path) -> None:
    trace = tmp_path / "job.json.gz"
    result = run(jobs.train, {"steps": 200}, tmp_path, count=3, track=True, trace=trace)
    for name, values in expected(200).items():
        np.testing.assert_allclose(jobs.values_in(result)[name], values, rtol=0, atol=1e-12)
    told = parallel.statistics()
    assert {rank: it.step for rank, it in told.workers.items()} == {0: 200, 1: 200, 2: 200}
    assert told.live_count == 0
    assert not any(it.is_last_seen for it in told.workers.values())
    assert parallel.memory().total.bytes_live == 0
    assert parallel.leaks().count == 0
    assert str(told).startswith("3 workers: live_count: 0;")
    shown = subprocess.run(
        [sys.executable, "-m", "scopes", "report", str(trace)], capture_output=True, text=True, check=False
    )
    assert "step" in shown.stdout, shown.stderr


@pytest.mark.parametrize("processors", [1, 2])
def test_a_worker_computes_on_as_many_threads_as_it_has_processors(
    processors: int, cluster_is_left_clean: None, tmp_path: Path
) -> None:
    scaling = train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": processors})
    threads = run(jobs.tell_threads, None, tmp_path, scaling_config=scaling).metrics["threads"]
    assert set(threads) == {processors}


@pytest.mark.soak
def test_ten_thousand_steps_leave_all_figures_flat(cluster_is_left_clean: None, tmp_path: Path) -> None:
    marks = run(jobs.train_long, {"steps": 10_000}, tmp_path).metrics["marks"]
    assert len(marks) == 20
    for worker in ("0", "1"):
        mine = [mark[worker] for mark in marks]
        assert len({(it["alive"], it["live"], it["store"]) for it in mine}) == 1
        assert max(it["process"] for it in mine) < min(it["process"] for it in mine) + 2**20


def test_a_leak_in_one_worker_is_named_by_line_and_worker(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    run(jobs.leak, {"steps": 50, "worker": 2}, tmp_path, count=3, track=True)
    report = parallel.leaks()
    assert report.workers == (0, 1, 2)
    (row,) = [row for row in report.rows if row.growing_in]
    assert row is report.rows[0]
    assert "parallel_jobs.py" in row.site
    assert "kept.append(scope.move_to_outer(tensor.ones((1000,)) * step))" in row.text
    assert (row.workers, row.count, row.nbytes) == ((2,), 50, 50 * 4000)
    assert "worker 2: 50 and growing" in str(report)
    assert parallel.statistics().workers[2].disposables.live_count == 50
    with track():  # what this process has alive is no worker's
        kept = tensor.ones((1,))
        assert str(parallel.leaks()) == str(report)
    del kept
    assert "worker 2" in str(parallel.memory())


def test_a_leak_that_ends_with_the_loop_of_one_worker_is_named_by_line_and_worker(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    run(training.keep_in_the_loop, {"steps": 50, "worker": 1}, tmp_path, count=3, track=True)
    report = parallel.leaks()
    assert (report.workers, report.rows) == ((0, 1, 2), ())
    (row,) = report.leaking
    assert row.text == training.LEAKING
    assert (row.workers, row.growing_in, tuple(row.risen)) == ((1,), (1,), (1,))
    assert "kept" in row.holders[1]
    assert row.sizes_per_round[1] == pytest.approx(8000, rel=0.2)
    assert f"{row.site}, worker 1 (" in report.verdict
    page = report.to_html(tmp_path / "leaks.html")
    assert all(f"<option>worker {rank}</option>" in page for rank in range(3))
    assert training.LEAKING in page


def test_workers_get_a_data_set_as_tensors_over_the_store(cluster: None, tmp_path: Path) -> None:
    import ray.data

    dataset = ray.data.from_numpy(np.arange(1000, dtype=np.float64)).rename_columns({"data": "x"})
    result = run(jobs.read_shard, {}, tmp_path, datasets={"train": dataset})
    assert result.metrics["mean"] == pytest.approx(999 * 500 / 2)
    assert result.metrics["pins_after"] == 0
    assert parallel.memory().bytes_in_store == 0


def test_a_loader_reads_a_data_set_of_ray_in_the_scopes_of_steps(cluster: None, tmp_path: Path) -> None:
    import ray.data

    inputs, targets = training.data()  # 192 rows: Ray gives each worker 96 of them, in any order
    dataset = ray.data.from_items([{"x": x, "y": int(y)} for x, y in zip(inputs, targets, strict=True)])
    config = {"gradients": str(tmp_path / "gradients.npz")}
    result = run(jobs.load_shard, config, tmp_path, datasets={"train": dataset})
    assert result.metrics["rows"] == 192
    assert result.metrics["pins_after"] == 0
    tensor.manual_seed(0)
    alone = training.perceptron()
    for _ in range(2):
        loss = nn.functional.cross_entropy(alone(tensor.tensor(inputs)), tensor.tensor(targets))
        loss.backward()
    found = np.load(config["gradients"])
    for parameter, gradient in zip(alone.parameters(), found.values(), strict=True):
        np.testing.assert_allclose(gradient, parameter.grad.numpy(), rtol=0, atol=1e-12)
    assert parallel.memory().bytes_in_store == 0
    assert parallel.statistics().live_count == 0


def test_a_loader_ends_each_batch_of_ray_or_gives_it_to_the_scope(cluster: None) -> None:
    import ray.data

    dataset = ray.data.from_numpy(np.arange(10.0)).rename_columns({"data": "x"})
    loader = nn.data.DataLoader(parallel.RayDataset(dataset), 4, dispose_batches=True, drop_last=True)
    seen = [batch["x"] for batch in loader]
    assert [x.is_invalid for x in seen] == [True, True]
    assert parallel.store_pins() == []
    source = parallel.RayDataset(dataset, ["x"])
    assert len(source) == 10
    with new_dispose_scope() as scope:
        seen = [x for (x,) in nn.data.DataLoader(source, 4)]
        assert [x.tolist() for x in seen] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert all(x in scope for x in seen)
    with pytest.raises(ValueError, match=r"has no column 'y'\. Its columns are 'x'"):
        next(iter(nn.data.DataLoader(parallel.RayDataset(dataset, ["y"]), 4)))
    with pytest.raises(ValueError, match="pass a batch_size to the DataLoader"):
        next(iter(nn.data.DataLoader(source, None)))
    with pytest.raises(RuntimeError, match="omit num_workers"):
        next(iter(nn.data.DataLoader(source, 4, num_workers=1)))
    with pytest.raises(TypeError, match="requires a data set of Ray Data, not list"):
        parallel.RayDataset([1.0])


@pytest.mark.parametrize("package", ["pyarrow", "pandas"])
def test_the_error_names_the_package_that_ray_data_lacks(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\nfrom nn import parallel\nparallel.RayDataset(None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "RayDataset requires Ray Data with pyarrow and pandas" in done.stderr
    assert f"the import of {package!r} failed: run pip install '.[ray]'" in done.stderr


def test_a_model_is_applied_to_a_data_set(cluster: None) -> None:
    import ray.data

    model = nn.Linear(1, 1)
    with tensor.no_grad():
        model.weight.fill_(2.0)
        model.bias.fill_(1.0)
    rows = np.arange(100, dtype=np.float32).reshape(100, 1)
    dataset = ray.data.from_numpy(rows).rename_columns({"data": "x"})
    mapped = parallel.map(model.valid(), dataset, columns=("x",), batch_size=10)
    found = sorted((float(row["x"][0]), float(row["output"][0])) for row in mapped.take_all())
    assert found == [(float(i), 2.0 * i + 1) for i in range(100)]


def test_end_of_the_scope_releases_the_object_store_memory_of_a_view(cluster_is_left_clean: None) -> None:
    before = free("object_store_memory")
    reference = parallel.put({"x": tensor.ones((5_000_000,))})
    assert wait_until(lambda: free("object_store_memory") < before - 15e6)
    with new_dispose_scope():
        view = parallel.get(reference)["x"][:10]
        (pin,) = parallel.store_pins()
        assert pin.nbytes == 20_000_000
        assert 'view = parallel.get(reference)["x"][:10]' in str(pin)
        assert view.tolist() == [1.0] * 10
    assert view.is_invalid
    assert parallel.store_pins() == []
    del reference
    assert wait_until(lambda: free("object_store_memory") >= before)


def test_a_write_over_the_store_makes_a_copy(cluster_is_left_clean: None) -> None:
    reference = parallel.put([tensor.zeros((100_000,))])
    with new_dispose_scope():
        (x,) = parallel.get([reference])[0]
        x += 1
        assert parallel.store_pins() == []
        assert x.sum().item() == 100_000
        (again,) = parallel.get(reference)
        assert again.sum().item() == 0


def test_tensors_of_pytorch_are_counted_and_their_leaks_named(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from ray.train.torch import TorchTrainer

    with parallel.Watch(track=True) as watch:
        TorchTrainer(
            watch.loop(jobs.learn_with_torch),
            train_loop_config={"steps": 30},
            scaling_config=train.ScalingConfig(num_workers=2),
            run_config=train.RunConfig(storage_path=str(tmp_path)),
        ).fit()
    assert {rank: it.step for rank, it in parallel.statistics().workers.items()} == {0: 30, 1: 30}
    row = parallel.leaks().rows[0]
    assert (row.workers, row.count, row.growing_in) == ((1,), 30, (1,))
    assert "kept.append(scope.move_to_outer(torch.ones(1000) * step))" in row.text


def test_a_model_of_pytorch_trains_as_in_one_process_and_its_leak_is_named(
    cluster_is_left_clean: None, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from tests.nn import parallel_torch

    alone, _ = parallel_torch.train({"steps": 30})
    config = {"steps": 30, "scopes": True, "leaks_in": 1}
    result = run(parallel_torch.report, config, tmp_path, track=True)
    np.testing.assert_allclose(result.metrics["losses"], alone, rtol=0, atol=1e-12)
    assert {rank: it.step for rank, it in parallel.statistics().workers.items()} == {0: 30, 1: 30}
    (row,) = parallel.leaks().leaking
    assert row.text == parallel_torch.LEAKING
    assert (row.workers, row.growing_in) == ((1,), (1,))
    assert "kept" in row.holders[1]
    assert parallel.statistics().live_count == 0


def test_the_trace_of_a_job_has_a_process_for_each_worker(cluster: None, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    run(jobs.train, {"steps": 5}, tmp_path, trace=trace)
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names.keys() == {0, 1}
    assert names[1].startswith("worker 1 (")
    for worker in (0, 1):
        steps = [e for e in events if e["pid"] == worker and e["ph"] == "X" and e["name"].startswith("step")]
        assert steps


def test_the_example_learns_the_digits_and_nothing_is_left(cluster_is_left_clean: None, capsys: Any) -> None:
    pytest.importorskip("sklearn")
    assert load("train_on_ray").main(["--epochs", "3"]) > 0.85
    printed = capsys.readouterr().out
    assert "2 workers: live_count: 0;" in printed
    assert "nothing is alive in 2 workers" in printed


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """Two nodes on this machine; after the tests of one node, for a process is in one cluster at a time."""
    pytest.importorskip("torch")
    with nodes([2, 2]) as made:
        yield made


def test_gradients_and_figures_go_between_nodes(two_nodes: Any, tmp_path: Path) -> None:
    result = run(jobs.tell_places, None, tmp_path, count=3)
    assert result.metrics["gradient"] == pytest.approx((1 + 2 + 3) / 3)
    assert result.metrics["nodes"] == 2
    assert result.metrics["workers"] == [0, 1, 2]


def test_a_job_on_two_nodes_trains_as_one_process(two_nodes: Any, tmp_path: Path) -> None:
    result = run(jobs.train, {"steps": 50}, tmp_path, count=4)
    for name, values in expected(50).items():
        np.testing.assert_allclose(jobs.values_in(result)[name], values, rtol=0, atol=1e-12)
