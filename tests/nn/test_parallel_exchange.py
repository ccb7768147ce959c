"""Replicas in plain processes of one machine: averages, figures, and workers that are lost. Needs no Ray."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import parallel
from nn.parallel import regions
from nn.parallel.board import Board
from nn.parallel.flags import Flags
from nn.parallel.shared_values import SharedValues
from tests import workers
from tests.nn import parallel_training as training
from tests.nn.parallel_cluster import files_in_memory, wait_until_gone

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="workers share memory by files and locks of POSIX"
)


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers are more than processors: threads of several would wait for each other.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


@pytest.fixture(autouse=True)
def nothing_is_left_in_shared_memory() -> Any:
    before = files_in_memory()
    yield
    # Another run of these tests on the machine may be about to map its own.
    assert wait_until_gone(files_in_memory() - before), files_in_memory() - before


@pytest.mark.parametrize(
    ("name", "count", "steps", "dtype", "most"),
    [
        ("SGD", 2, 200, tensor.float64, 1e-12),
        ("SGD", 3, 200, tensor.float64, 1e-12),
        ("SGD", 4, 200, tensor.float64, 1e-12),
        ("Adam", 2, 200, tensor.float64, 1e-12),
        ("Adam", 3, 200, tensor.float64, 1e-12),
        ("SGD", 3, 20, tensor.float32, 1e-6),
        # Rounding has grown: 6e-7 at most on three kinds of processors.
        ("SGD", 3, 200, tensor.float32, 4e-6),
    ],
)
def test_workers_train_as_one_process_with_the_whole_batch(
    name: str, count: int, steps: int, dtype: np.dtype[Any], most: float
) -> None:
    alone = training.train(steps, name, dtype)
    results = workers.run(count, training.train, steps, name, dtype)
    assert not [result for result in results if isinstance(result, str)], results
    losses = sum(losses for losses, _ in results) / count
    np.testing.assert_allclose(losses, alone[0], rtol=0, atol=most)
    for name, values in alone[1].items():
        np.testing.assert_allclose(results[0][1][name], values, rtol=0, atol=most)
        for _, other in results[1:]:
            assert other[name].tobytes() == results[0][1][name].tobytes()


def test_one_large_bucket_gives_the_same_bits_as_many_small_ones() -> None:
    small, large = (
        workers.run(2, training.train, 5, "SGD", tensor.float32, size)[0] for size in (1, 1 << 20)
    )
    for name, values in small[1].items():
        assert values.tobytes() == large[1][name].tobytes()


def test_replicas_begin_with_the_values_of_worker_0() -> None:
    results = workers.run(3, training.first_values)
    for name, first in results[0][0].items():
        for _, after in results:
            np.testing.assert_array_equal(after[name], first)
    assert not np.array_equal(results[1][0]["0.weight"], results[0][0]["0.weight"])


def test_batch_norm_normalizes_each_part_and_averages_its_running_statistics() -> None:
    results = workers.run(2, training.train_with_batch_norm, 1)
    (first, values), (second, others) = results
    for name, value in values.items():
        assert value.tobytes() == others[name].tobytes()
    # After one step: a tenth of the mean of both parts' means, before the step.
    model = nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16))
    assert values["1.running_mean"].shape == tuple(model[1].running_mean.shape)
    assert not np.allclose(first[0], second[0])


def test_gradients_gather_inside_no_sync_and_are_averaged_by_the_next_backward() -> None:
    results = workers.run(2, training.gather_then_average)
    assert [alone for alone, _ in results] == [[1.0], [2.0]]
    assert [both for _, both in results] == [[(11 + 22) / 2]] * 2


def test_unused_parameters_are_found_if_asked_and_named_if_not() -> None:
    assert workers.run(2, training.leave_one_out, True) == [[0.5, 1.0]] * 2
    for error in workers.run(2, training.leave_one_out, False):
        assert "computed no gradient of" in error
        assert "find_unused_parameters=True" in error


def test_values_that_no_worker_receives_are_not_put_into_the_object_store() -> None:
    Board(None).send("the model", [np.ones(1)], 0)  # would need Ray and the actor


def test_different_models_are_refused() -> None:
    errors = workers.run(2, training.different_models)
    assert "Worker 1, unlike worker 0, has weight float32[3, 2]" in errors[1]
    assert all("the models of the workers differ" in error for error in errors)


@pytest.mark.parametrize("at", [0, 7])
def test_other_workers_detect_a_killed_worker_and_keep_its_last_figures(at: int) -> None:
    first, killed, third = workers.run(3, training.die_in_mid_step, at)
    assert killed is None
    for message, step, is_last_seen, alive in (first, third):
        assert "worker 1 has ended or was killed" in message
        assert (step, is_last_seen) == (at, True)
        assert (alive > 0) == (at > 0)  # before the first step it has none yet


def test_workers_that_look_at_the_same_time_all_see_that_another_is_gone() -> None:
    assert workers.run(3, training.look_again_and_again, 3000) == [3000, None, 3000]


@pytest.mark.parametrize("killed", [0, 1])
def test_a_worker_that_is_killed_before_it_maps_memory_is_noticed(killed: int) -> None:
    others = workers.run(3, training.die_before_prepare, killed)
    assert others.pop(killed) is None
    for error in others:
        assert f"WorkerLostError: worker {killed} has ended or was killed" in error


def test_late_worker_raises_an_error_that_names_the_killed_worker() -> None:
    first, killed, last = workers.run(3, training.prepare_when_another_has_left, 1)
    assert killed is None
    for error in (first, last):
        assert "WorkerLostError: worker 1 has ended or was killed" in error


def test_a_worker_that_arrives_after_the_last_look_is_not_late() -> None:
    layout = regions.Layout()
    begin = layout.add(8)
    region = regions.Region("", 0, 1, layout, 0.0, (0,))
    flag = region.flags_at(begin)
    assert region.wait(flag, 1, "to come", at_half=lambda: region.flags.set(flag, 1)) > 0


def test_a_worker_that_waits_too_long_names_the_missing_worker(tmp_path: Path) -> None:
    slept, late = workers.run(2, training.come_too_late, tmp_path / "over", timeout=1.0)
    assert slept == "slept"
    waited = re.search(r"waited (\S+) s for worker 0 at a barrier", late)
    assert waited is not None, late
    assert float(waited[1]) >= 1.0


def test_barriers_hold_again_and_again() -> None:
    assert workers.run(3, training.barriers, 200) == [200] * 3


def test_each_epoch_has_an_order_of_its_own_that_all_workers_share() -> None:
    first, second = workers.run(2, training.orders, 3)
    for own, others in zip(first, second, strict=True):
        assert sorted(own + others)[0] == 0
        assert set(own + others) == set(range(10))
        assert len(own) == len(others)
    assert len({tuple(order) for order in first}) == 3


def test_each_worker_sees_the_figures_of_all() -> None:
    first, second = workers.run(2, training.figures)
    assert first.keys() == {0, 1}
    assert second[1][0] - first[0][0] == 10  # each of itself, now
    assert first[1][0] >= 10  # after its last step
    assert [step for _, step in first.values()] == [1, 1]


def test_a_program_alone_is_its_own_only_worker() -> None:
    # In a process of its own: one that has started a job hears of that.
    assert workers.run(1, training.alone) == [[0, 1, [0], 1, True, (0,), 4000]]
    loader = parallel.prepare_data_loader(nn.data.DataLoader([1.0, 2.0, 3.0], batch_size=2))
    assert [batch.tolist() for batch in loader] == [[1.0, 2.0], [3.0]]


def test_samples_that_do_not_come_out_even_come_again_or_are_left_out() -> None:
    def parts(length: int, **options: Any) -> list[list[int]]:
        samplers = [parallel.ShardSampler(range(length), 2, rank=i, count=3, **options) for i in range(3)]
        found = [list(sampler) for sampler in samplers]
        assert [len(sampler) for sampler in samplers] == [len(part) for part in found]
        return found

    assert parts(12) == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]
    assert parts(8) == [[0, 1, 6], [2, 3, 7], [4, 5, 0]]
    assert parts(8, drop_last=True) == [[0, 1], [2, 3], [4, 5]]
    assert parts(1) == [[0], [0], [0]]
    assert parts(8, even_batches=False) == [[0, 1, 6], [2, 3, 7], [4, 5, 6]]
    assert parts(11, even_batches=False) == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10]]


@pytest.mark.parametrize(
    ("samples", "sizes", "processes"),
    [(53, (2, 2, 1), 0), (53, (2, 2, 1), 1), (50, (1, 1, 1), 0), (71, (8, 8, 7), 0), (5, (2, 2, 1), 0)],
)
def test_an_uneven_last_batch_trains_as_in_one_process(
    samples: int, sizes: tuple[int, ...], processes: int
) -> None:
    _, alone = training.train_unevenly(samples, {})
    results = workers.run(3, training.train_unevenly, samples, {"num_workers": processes})
    assert not [result for result in results if isinstance(result, str)], results
    assert [last for last, _ in results] == [[size] * 3 for size in sizes]
    for name, values in alone.items():
        # float64: the sums differ in their order, by some 1e-16 in each step.
        np.testing.assert_allclose(results[0][1][name], values, rtol=0, atol=1e-12)
        for _, other in results[1:]:
            assert other[name].tobytes() == results[0][1][name].tobytes()


def test_gradients_of_uneven_batches_are_not_gathered() -> None:
    for result in workers.run(2, training.gather_unevenly):
        assert "their parts of this batch differ in size" in result


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: parallel.prepare(3), TypeError, "requires an nn.Module, not int"),
        (lambda: parallel.prepare(nn.Linear(1, 1), bucket_bytes=0), ValueError, "at least 1, not 0"),
        (lambda: parallel.prepare_data_loader([1]), TypeError, "requires a DataLoader of nn.data, not list"),
        (
            lambda: parallel.prepare_data_loader(nn.data.DataLoader([1], sampler=[0])),
            ValueError,
            "does not support a sampler",
        ),
        (
            lambda: parallel.prepare_data_loader(nn.data.DataLoader([1], batch_size=None)),
            ValueError,
            "requires a DataLoader with batch_size",
        ),
        (lambda: parallel.ShardSampler([1], rank=2, count=2), ValueError, "below count, 2, not 2"),
        (lambda: parallel.ShardSampler([1], 0), ValueError, "at least 1, not 0"),
        (
            lambda: parallel.map(nn.Linear(1, 1), None),
            ValueError,
            r"parallel.map\(model.valid\(\), dataset\)",
        ),
    ],
)
def test_wrong_arguments_are_explained(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.train", None)
    for call in (lambda: parallel.Trainer(print), lambda: parallel.put(tensor.ones((1,)))):
        with pytest.raises(ModuleNotFoundError, match=r"pip install '.\[ray\]'"):
            call()


def test_nn_imports_neither_ray_nor_modules_that_need_it() -> None:
    workers.require_not_imported("import nn", "ray", "nn.parallel")
    workers.require_not_imported("from nn import parallel", "ray", "nn.parallel.jobs")


def test_lack_of_shared_memory_raises_an_error_with_the_docker_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(regions.os, "posix_fallocate", full, raising=False)
    layout = regions.Layout()
    layout.add(100)
    with pytest.raises(OSError, match="docker run --shm-size=4g"):
        regions.Region("test.0-n0-1", 0, 2, layout, 1.0, (0, 1))


def test_worker_that_times_out_at_mapping_memory_does_not_count_as_killed() -> None:
    layout, ranks = regions.Layout(), (0, 1, 2)
    layout.add(8)
    name = f"{uuid.uuid4().hex[:8]}.0-n0-1"
    first = object.__new__(regions.Region)
    with ThreadPoolExecutor() as pool:
        made = pool.submit(first.__init__, name, 0, 3, layout, 60.0, ranks)
        second = regions.Region(name, 1, 3, layout, 60.0, ranks)
        first.timeout = 0.1  # it has waited long enough
        with pytest.raises((parallel.ExchangeTimeoutError, parallel.WorkerLostError)):
            made.result()
    assert second.flags.get(0) == regions._LEFT


def test_files_of_killed_processes_are_removed_and_other_files_stay() -> None:
    token = f"{regions.PREFIX}{uuid.uuid4().hex[:8]}.0"
    left, held = regions.folder() / f"{token}-n0-1", regions.folder() / f"{token}-n0-2"
    left.write_bytes(b"")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(held)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"held\n"
        regions.remove_left_behind()
        assert (left.exists(), held.exists()) == (False, True)
        maker.kill()
    regions.remove_left_behind()
    assert not held.exists()


HOLD = """
import pathlib, sys
from nn.parallel import regions
layout = regions.Layout()
file = regions._make(pathlib.Path(sys.argv[1]), 4096)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts what /proc says that is mapped")
def test_regions_are_created_during_a_search_for_stale_ones_and_freed_with_their_models() -> None:
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            regions.remove_left_behind()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        unmapped = workers.run(2, training.map_again_and_again, 300)
    finally:
        is_over.set()
        looking.join()
    assert unmapped == [3, 3]


def test_the_last_complete_write_is_read_during_further_writes() -> None:
    layout = regions.Layout()
    values = SharedValues(layout, 500)
    values.attach(regions.Region("", 0, 1, layout, 1.0, (0,)))
    assert values.read() is None
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            values.write(np.full(500, number))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        before = reads = 0
        while reads < 2000:
            found = values.read()
            if found is not None:
                assert len(set(found.tolist())) == 1
                assert found[0] >= before
                before = found[0]
                reads += 1
    finally:
        is_over.set()
        writer.join()


def test_flags_are_waited_for_and_checked() -> None:
    flags = Flags(bytearray(64))
    assert len(flags) == 8
    flags.set(1, 5)
    assert flags.get(1) == 5
    assert flags.wait(1, 1, 5, 0) == -1
    assert flags.wait(0, 2, 1, 0.01) == 0
    for call in (lambda: flags.get(8), lambda: flags.set(-1, 0), lambda: flags.wait(7, 2, 0, 0)):
        with pytest.raises(IndexError, match="there are 8"):
            call()


def test_flags_refuse_memory_that_they_cannot_use() -> None:
    memory = bytearray(64)
    with pytest.raises(ValueError, match="not 12 bytes at 0x"):
        Flags(memoryview(memory)[:12])
    with pytest.raises(ValueError, match="aligned to 8 bytes"):
        Flags(memoryview(memory)[1:17])
    memory.clear()  # no flags hold it


LOOP_THAT_KEEPS = """
import pathlib, sys
import pytest
from nn import parallel
from tests.nn import parallel_training as training

parallel.Watch(track=True).loop(training.keep_in_the_loop)({"steps": 40, "worker": 0})
report = parallel.leaks()
assert report.rows == ()
row = report.highest[0]
assert row.text == training.LEAKING
assert (row.workers, row.growing_in) == ((0,), (0,))
assert row.risen[0] >= 64 * 1024
assert row.counts_per_round[0] == pytest.approx(1, abs=0.2)
assert row.sizes_per_round[0] == pytest.approx(8000, rel=0.2)
assert "kept" in row.holders[0]
assert [line.site for line in report.leaking] == [row.site]
assert "1 line keeps more and more" in str(report)
text = report.to_html(sys.argv[1])
assert "<option>worker 0</option>" in text
assert training.LEAKING in text
assert pathlib.Path(sys.argv[1]).read_text() == text
"""


def test_what_only_a_loop_keeps_is_reported_after_it(tmp_path: Path) -> None:
    # A process of its own: the search for holders is limited, and a large heap may use it up.
    page = str(tmp_path / "page.html")
    subprocess.run([sys.executable, "-c", LOOP_THAT_KEEPS, page], check=True)
