"""Loaders with worker processes: order, ownership, errors, deaths, and that nothing is left."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import nn.data.shared_blocks as shared_blocks
import tensor
from nn.data import BatchSampler, DataLoader, RandomSampler, TensorDataset, default_convert, get_worker_info
from nn.utils.rnn import PackedSequence, pack_sequence
from scopes import current_dispose_scope, new_dispose_scope, statistics
from tensor import Tensor, memory
from tests.nn.datasets import (
    LARGE,
    Counting,
    Drawn,
    EndingItself,
    Failing,
    FailingOddly,
    Images,
    Slow,
    Unreadable,
    children,
    identity,
    names_of_blocks,
    refuse,
    say_hello,
    wait_until,
)
from tests.process import needs_process_memory

# Python's own: from 3.14 on the list has those too that libraries have added.
METHODS = [m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()]
pytestmark = [
    pytest.mark.skipif(not Path("/dev/shm").is_dir() or "fork" not in METHODS, reason="looks into /proc"),
    # From 3.12 on, of the threads of our own pool, which a fork leaves in order, and of other tests'.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()
    assert wait_until(lambda: not children()), children()
    assert not names_of_blocks()
    assert memory.statistics().bytes_external == 0


def forked(dataset: Any, *args: Any, num_workers: int = 2, **options: Any) -> DataLoader[Any]:
    options.setdefault("multiprocessing_context", "fork")
    return DataLoader(dataset, *args, num_workers=num_workers, **options)


def numbers(loader: Any) -> list[list[int]]:
    found = []
    for x, y in loader:
        assert x.shape == (len(y), LARGE)
        assert x[:, 0].tolist() == x[:, -1].tolist() == y.tolist()
        found.append(y.tolist())
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [1, 3])
def test_batches_arrive_in_order_whichever_worker_makes_them(method: str, workers: int) -> None:
    loader = forked(Images(23), 4, num_workers=workers, multiprocessing_context=method)
    here = numbers(DataLoader(Images(23), 4))
    assert len(loader) == len(here) == 6
    assert numbers(loader) == here
    assert numbers(loader) == here


def test_the_start_method_of_joblib_is_as_good_as_pythons() -> None:
    pytest.importorskip("joblib.externals.loky.backend.context")  # it is a method once this is imported
    loader = forked(Images(23), 4, num_workers=2, multiprocessing_context="loky")
    assert numbers(loader) == numbers(loader) == numbers(DataLoader(Images(23), 4))
    with pytest.raises(RuntimeError, match="SIGKILL"):
        for _ in (batches := iter(forked(Slow(10_000), 2, multiprocessing_context="loky"))):
            os.kill(batches._workers.members[1].process.pid, signal.SIGKILL)


@pytest.mark.parametrize("options", [{"prefetch_factor": 1}, {"prefetch_factor": 50}, {"timeout": 60}])
def test_options_of_workers_change_no_batch(options: dict[str, Any]) -> None:
    assert numbers(forked(Images(23), 4, **options)) == numbers(DataLoader(Images(23), 4))


def test_a_seed_gives_the_same_orders_with_workers_and_without() -> None:
    loaders: list[DataLoader[Any]] = [
        DataLoader(Images(20), 3, shuffle=True, generator=7),
        forked(Images(20), 3, shuffle=True, generator=7),
        forked(Images(20), 3, shuffle=True, generator=7, num_workers=3, persistent_workers=True),
    ]
    rounds = [[numbers(loader), numbers(loader)] for loader in loaders]
    assert rounds[0] == rounds[1] == rounds[2]
    assert rounds[0][0] != rounds[0][1]


def test_samplers_and_batch_samplers_give_the_numbers() -> None:
    assert numbers(forked(Images(9), 2, sampler=[5, 1, 7], drop_last=True)) == [[5, 1]]
    batches = BatchSampler(RandomSampler(range(9)), 2, drop_last=False)
    found = numbers(forked(Images(9), batch_sampler=batches))
    assert sorted(y for batch in found for y in batch) == list(range(9))
    keyed = forked({"a": 1, "b": 2}, None, sampler=["b", "a"])
    assert list(keyed) == [2, 1]


def test_rows_of_tensors_are_read_by_workers_too() -> None:
    data = TensorDataset(tensor.arange(10).float()[:, None].expand(10, LARGE), tensor.arange(10))
    assert numbers(forked(data, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_batches_ready_first_come_first_when_order_does_not_matter() -> None:
    found = numbers(forked(Images(40), 4, num_workers=4, in_order=False))
    assert sorted(found) == numbers(DataLoader(Images(40), 4))


def test_single_samples_are_converted_and_collated_as_asked() -> None:
    arrays = [np.full((LARGE,), i, np.float32) for i in range(3)]
    for loader in (DataLoader(arrays, None), forked(arrays, None)):
        found = list(loader)
        assert [type(x) for x in found] == [Tensor] * 3
        assert [x[0].item() for x in found] == [0, 1, 2]
    assert list(forked(range(3), None, collate_fn=str)) == ["0", "1", "2"]
    assert list(forked(range(4), 2, collate_fn=identity)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_are_read_a_batch_at_a_time_where_the_data_set_can(workers: int) -> None:
    class Several(Images):
        def __getitems__(self, several: list[int]) -> list[int]:
            return [10 * i for i in several]

    context = "fork" if workers else None
    loader = DataLoader(Several(4), 2, num_workers=workers, multiprocessing_context=context)
    assert [batch.tolist() for batch in loader] == [[0, 10], [20, 30]]


def test_data_sets_that_are_iterated_end_worker_by_worker() -> None:
    found = [x.tolist() for x in forked(Counting(11), 2, num_workers=3)]
    # Worker 0 has 0 3 6 9, worker 1 has 1 4 7 10, worker 2 has 2 5 8.
    assert found == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    found = [x.tolist() for x in forked(Counting(11), 2, num_workers=3, drop_last=True)]
    assert found == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10]]
    assert list(forked(Counting(5), None, num_workers=2)) == [0, 1, 2, 3, 4]
    assert sorted(forked(Counting(3, shared_out=False), None)) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(TypeError, match="does not define __len__"):
        len(forked(Counting(5)))


def test_persistent_workers_start_each_epoch_again() -> None:
    loader = forked(Counting(6), 2, persistent_workers=True)
    processes = set()
    for _ in range(3):
        assert [x.tolist() for x in loader] == [[0, 2], [1, 3], [4], [5]]
        processes |= children()
    assert len(processes) == 2
    images = forked(Images(40), 4, persistent_workers=True)
    for stop in (1, 3, 5):
        for i, (x, y) in enumerate(images):
            assert x[0, 0].item() == y[0].item() == 4 * i
            if i == stop:
                break
    assert len(numbers(images)) == 10
    again = iter(images)
    assert [next(again)[1][0].item(), next(iter(images))[1][0].item()] == [0, 0]  # two rounds at once
    copy = pickle.loads(pickle.dumps(forked(Images(4), 2, persistent_workers=True)))
    assert numbers(copy) == [[0, 1], [2, 3]]


def test_nested_loops_have_workers_of_their_own() -> None:
    outer, inner = forked(Images(4), 2), forked(Images(6), 3)
    pairs = [(a.tolist(), b.tolist()) for _, a in outer for _, b in inner]
    assert pairs == [(a, b) for a in ([0, 1], [2, 3]) for b in ([0, 1, 2], [3, 4, 5])]


def test_a_loader_inside_of_a_worker_says_that_it_has_no_workers() -> None:
    class Nested(Images):
        def __getitem__(self, i: int) -> Any:
            return len(numbers(DataLoader(Images(4), 2, num_workers=i)))

    loader = iter(forked(Nested(2)))
    assert next(loader).tolist() == [2]
    with pytest.raises(RuntimeError, match=r"inside a worker.*num_workers=0"):
        next(loader)


def test_each_worker_has_seeds_of_its_own_and_each_round_others() -> None:
    def rounds(**options: Any) -> list[list[tuple[Any, ...]]]:
        loader = forked(Drawn(6), None, collate_fn=tuple, generator=3, **options)
        return [list(loader), list(loader)]

    first, second = rounds()
    drawn = [sample[:3] for sample in first + second]
    assert len({number for three in drawn for number in three}) == 36
    assert [first, second] == rounds()
    for samples in (first, second):
        seeds = {sample[4]: sample[3] for sample in samples}
        assert seeds.keys() == {0, 1}
        assert seeds[1] == seeds[0] + 1
    assert get_worker_info() is None


def test_worker_init_fn_runs_once_in_each_worker_and_its_errors_are_raised() -> None:
    class Count(Images):
        def __getitem__(self, i: int) -> Any:
            return self.count

    assert list(forked(Count(4), None, worker_init_fn=say_hello)) == [4, 104, 4, 104]
    with pytest.raises(PermissionError, match="worker 0 may not"):
        next(iter(forked(Images(4), worker_init_fn=refuse)))


def test_batches_of_every_kind_arrive_as_they_were() -> None:
    x = tensor.arange(2000).float()
    kinds: dict[str, Any] = {
        "twice": [x, x],
        "strided": x.reshape(40, 50).T,
        "double": x.double(),
        "flags": x.expand(3, 2000) > 1,
        "half": x.half(),
        "complex": tensor.tensor([1j] * 600),
        "empty": tensor.zeros((0, 5)),
        "scalar": tensor.tensor(3.0),
        "leaf": tensor.ones((2000,), requires_grad=True),
        "array": np.arange(2000),
        "packed": pack_sequence([tensor.ones((1200,)), tensor.ones((5,))]),
        "words": ["a", b"b", None, {1: 2}],
    }
    (found,) = forked([kinds], None, num_workers=1, collate_fn=identity)
    assert found["twice"][0] is found["twice"][1]
    assert found["leaf"].requires_grad
    assert found["words"] == kinds["words"]
    assert isinstance(found["packed"], PackedSequence)
    for name, kind in kinds.items():
        if isinstance(kind, Tensor):
            assert found[name].shape == kind.shape
            assert found[name].dtype == kind.dtype
            assert np.array_equal(found[name].detach().numpy(), kind.detach().numpy())
    assert np.array_equal(found["array"], kinds["array"])


def test_a_batch_belongs_to_the_scope_that_receives_it_and_counts_there(window: Any) -> None:
    batches = iter(forked(Images(12), 2, prefetch_factor=6))
    with new_dispose_scope() as first:
        x, y = next(batches)
        assert x in first
        assert y in first
        assert (window().live_count, window().created_in_scope_count) == (2, 2)
    assert x.is_invalid
    assert y.is_invalid
    with new_dispose_scope() as second:
        kept = [*next(batches), *next(batches)]
        assert len(second) == 4
        assert current_dispose_scope() is second
    assert all(z.is_invalid for z in kept)
    del batches
    now = window()
    assert (now.created_in_scope_count, now.disposed_in_scope_count, now.live_count) == (6, 6, 0)


def test_each_batch_can_be_disposed_before_the_next() -> None:
    kept: list[Tensor] = []
    for x, _ in forked(Images(12), 2, dispose_batches=True):
        assert all(old.is_invalid for old in kept)
        kept.append(x)
    assert kept[-1].is_invalid
    with new_dispose_scope() as scope:
        x, _ = next(iter(forked(Images(12), 2, dispose_batches=True)))
        assert x in scope


def test_tensors_lie_in_shared_memory_and_their_blocks_are_used_again() -> None:
    external = []
    addresses = set()
    for x, y in forked(Images(400), 4):
        external.append(memory.statistics().bytes_external)
        addresses.add(x.data_ptr())
        x.add_(1)  # writes into the block
        assert x[1, 1].item() == y[1].item() + 1
    assert set(external) == {4 * LARGE * 4}
    assert len(addresses) <= 12


def test_batches_that_a_loop_keeps_outlive_the_workers() -> None:
    loader = forked(Images(24), 4)
    kept = [x for x, _ in loader]
    views = [x[1:] for x in kept]
    arrays = [x.numpy() for x in kept]
    clones = [x.clone() for x in kept]
    del kept
    assert not children()
    for i, (view, array, clone) in enumerate(zip(views, arrays, clones, strict=True)):
        assert view[:, 3].tolist() == [4 * i + 1, 4 * i + 2, 4 * i + 3]
        assert array[0, 0] == clone[0, 5].item() == 4 * i


def test_a_program_may_keep_more_batches_than_a_process_may_have_files(monkeypatch: Any) -> None:
    monkeypatch.setattr(shared_blocks, "_MAX_OUT", 5)
    kept = [x for x, _ in forked(Images(80), 2)]
    assert memory.statistics().bytes_external == 2 * 5 * 2 * LARGE * 4
    assert [x[1, 7].item() for x in kept] == list(range(1, 80, 2))


def test_blocks_grow_and_shrink_with_the_batches() -> None:
    sizes = [5_000, 6_000, 80_000, 5_000_000, 2_000] + [2_000] * 200
    for i, x in enumerate(forked([np.full((n,), n, np.float32) for n in sizes], None, num_workers=1)):
        assert (x.shape, x[-1].item()) == ((sizes[i],), sizes[i])


def test_threads_release_batches_while_the_loop_continues() -> None:
    given: list[Tensor] = []
    over = threading.Event()

    def let_go() -> None:
        while not over.is_set() or given:
            if given:
                given.pop().dispose()

    thread = threading.Thread(target=let_go)
    thread.start()
    for x, y in forked(Images(600), 2):
        assert x[:, 9].tolist() == y.tolist()
        given.append(x)
    del x
    over.set()
    thread.join()


def test_an_error_of_a_worker_is_raised_with_its_traceback_and_the_loop_can_go_on() -> None:
    batches = iter(forked(Failing(12), 2))
    assert [next(batches)[1].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(LookupError) as caught:
        next(batches)
    assert caught.value.args == ("sample 5 is broken", 5)
    text = "".join(traceback.format_exception(caught.value))
    assert "In worker 0 (process" in text
    assert "datasets.py" in text
    assert 'raise LookupError("sample 5 is broken", 5)' in text
    assert [y.tolist() for _, y in batches] == [[6, 7], [8, 9], [10, 11]]


def test_a_stored_error_keeps_no_worker() -> None:
    stored = None
    try:
        for _ in forked(Failing(12), 2):
            pass
    except LookupError as error:
        stored = error
    assert stored is not None
    assert not children()


def test_errors_that_cannot_be_pickled_are_described() -> None:
    with pytest.raises(RuntimeError, match=r"OddError in worker 0 .*") as caught:
        next(iter(forked(FailingOddly(2))))
    assert "OddError: 0 and 0" in caught.value.__notes__[0]
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError), match=r"lambda|local"):
        next(iter(forked([1], collate_fn=lambda _: lambda: 0)))

    class Stops(Images):
        def __getitem__(self, i: int) -> Any:
            raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration in worker"):
        next(iter(forked(Stops(2))))


def test_an_error_while_a_batch_is_made_leaves_no_block_behind() -> None:
    class Halfway(Images):
        def __getitem__(self, i: int) -> Any:
            return [tensor.ones((5000,)), (lambda: 0) if i % 2 else 0]

    batches = iter(forked(Halfway(40), None, num_workers=1, collate_fn=identity))
    for _ in range(20):
        next(batches)
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
            next(batches)
    assert len(names_of_blocks()) <= 3


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (-signal.SIGKILL, "by SIGKILL.*memory runs out"),
        (-signal.SIGBUS, "by SIGBUS.*shm-size"),
        (-signal.SIGSEGV, "by SIGSEGV"),
        (3, "with exit code 3"),
        (0, "with exit code 0"),
    ],
)
def test_dead_worker_raises_an_error_that_says_how_it_ended(code: int, says: str) -> None:
    kept = []
    with pytest.raises(RuntimeError, match=rf"worker 1 \(process \d+\) .* ended unexpectedly, {says}"):
        for x, _ in forked(EndingItself(40, code), 2):
            kept.append(x)
    assert [x[0, 0].item() for x in kept] == [0, 2, 4][: len(kept)]
    assert not children()


def test_a_worker_that_cannot_read_its_request_ends_without_a_hang() -> None:
    loader = forked(Images(8), None, sampler=[0, 1, Unreadable()])
    with pytest.raises(RuntimeError, match=r"worker 0 \(process \d+\) .* ended unexpectedly, with exit code"):
        for _ in loader:
            pass
    assert not children()


def test_answer_with_missing_shared_memory_of_a_dead_worker_raises_an_error_that_names_the_worker() -> None:
    batches: Any = iter(forked(Images(4), None, num_workers=1, prefetch_factor=1))
    member = batches._workers.members[0]
    assert wait_until(lambda: f"{member.blocks._name}_0" in names_of_blocks() and member.connection.poll())
    os.kill(member.process.pid, signal.SIGKILL)
    Path("/dev/shm", f"{member.blocks._name}_0").unlink()
    with pytest.raises(RuntimeError, match=r"worker 0 \(process \d+\)"):
        next(batches)
    assert not children()


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_killed_from_outside_is_noticed_and_all_end(method: str) -> None:
    loader = forked(Slow(10_000), 2, num_workers=3, multiprocessing_context=method)
    batches = iter(loader)
    next(batches)
    os.kill(batches._workers.members[1].process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        while True:
            next(batches)
    assert not children()
    with pytest.raises(RuntimeError, match="have ended"):
        next(batches)
    assert numbers(forked(Images(4), 2)) == [[0, 1], [2, 3]]


def test_persistent_workers_that_died_are_replaced() -> None:
    loader = forked(Images(8), 2, persistent_workers=True)
    assert len(numbers(loader)) == 4
    for process in children():
        os.kill(process, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        numbers(loader)
    assert len(numbers(loader)) == 4


def test_waiting_ends_at_the_timeout() -> None:
    batches: Any = iter(forked(Slow(10, endless=2), 1, timeout=0.5))
    for member in batches._workers.members:  # a busy machine starts workers slowly
        assert wait_until(member.connection.poll)
    next(batches)
    next(batches)
    with pytest.raises(RuntimeError, match=r"within 0\.5 s"):
        next(batches)
    assert not children()


def test_an_early_end_of_the_loop_ends_the_workers() -> None:
    for _ in forked(Slow(10_000), 2):
        break
    assert not children()
    batches = iter(forked(Images(10), 2))
    assert len(children()) == 2
    del batches
    assert not children()


def run(program: str, **options: Any) -> subprocess.Popen[str]:
    head = "import os, signal, sys, time\nfrom nn.data import DataLoader\nfrom tests.nn.datasets import *\n"
    text = head + dedent(program)
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        **options,
    )


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("method", METHODS)
def test_a_parent_that_is_killed_leaves_no_worker_and_no_memory(method: str) -> None:
    parent = run(f"""
        if __name__ == "__main__":
            data = Slow(10_000, endless=500)
            loader = DataLoader(data, 2, num_workers=3, multiprocessing_context="{method}")
            batches = iter(loader)
            next(batches)
            workers = [member.process.pid for member in batches._workers.members]
            print(*workers, flush=True)
            for x in batches:
                pass
    """)
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 3
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert wait_until(lambda: not any(is_alive(worker) for worker in workers))
    assert wait_until(lambda: not names_of_blocks(parent.pid))


# What an interrupt within `ForkingPickler.dumps` leaves: a BytesIO whose memory is lent, in whatever process.
PYTHONS_OWN = re.compile(
    r"Exception ignored (in:|while finalizing file) <_io\.BytesIO object at 0x[0-9a-f]+>:?\n"
    r"BufferError: Existing exports of data: object cannot be re-sized\n"
)


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_reaches_the_loop_alone_and_all_end(method: str) -> None:
    program = run(
        f"""
        if __name__ == "__main__":
            stored = None
            try:
                for x in DataLoader(Slow(10_000), 2, num_workers=3, multiprocessing_context="{method}"):
                    if stored is None:
                        print("first", flush=True)
                        stored = ""
            except KeyboardInterrupt as error:
                stored = error
            print(type(stored).__name__, children(), names_of_blocks())
        """,
        start_new_session=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "first\n"
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: all of its processes
    out, errors = program.communicate(timeout=500)
    assert (out, PYTHONS_OWN.sub("", errors)) == ("KeyboardInterrupt set() set()\n", "")


@pytest.mark.parametrize(
    "end", ["sys.exit(0)", "raise SystemExit(0)", "kept = [x.numpy(), x, batches]", "loader = None"]
)
def test_a_program_that_ends_in_the_middle_of_a_loop_is_silent(end: str) -> None:
    program = run(f"""
        loader = DataLoader(Slow(10_000), 2, num_workers=2, multiprocessing_context="fork")
        batches = iter(loader)
        x, y = next(batches)
        {end}
    """)
    out, errors = program.communicate(timeout=500)
    assert (program.returncode, out, errors) == (0, "", "")
    assert not names_of_blocks(program.pid)


def test_a_worker_killed_before_its_block_had_memory_leaves_no_name() -> None:
    batches: Any = iter(forked(list(range(10)), num_workers=1))
    next(batches)
    member = batches._workers.members[0]
    Path("/dev/shm", f"{member.blocks._name}_0").touch()  # between two calls of the worker
    os.kill(member.process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker 0"):
        list(batches)
    assert not names_of_blocks()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: DataLoader([1], num_workers=True), "num_workers"),
        (lambda: DataLoader([1], prefetch_factor=2), "prefetch_factor requires workers"),
        (lambda: DataLoader([1], persistent_workers=True), "persistent_workers requires workers"),
        (lambda: DataLoader([1], timeout=2), "timeout requires workers"),
        (lambda: DataLoader([1], multiprocessing_context="fork"), "multiprocessing_context requires workers"),
        (lambda: DataLoader([1], num_workers=1, prefetch_factor=0), "at least 1, not 0"),
        (lambda: DataLoader([1], num_workers=1, timeout=-1), "at least 0, not -1"),
        (lambda: DataLoader(Counting(1), shuffle=True), "determines the order"),
        (lambda: DataLoader(Counting(1), sampler=[1]), "determines the order"),
        (lambda: iter(DataLoader([1], num_workers=1, multiprocessing_context="thread")), "thread"),
    ],
)
def test_wrong_use_names_the_culprit(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_a_nested_sample_is_converted_and_an_endless_one_refused() -> None:
    inside: list[Any] = [np.ones(1)]
    assert type(default_convert(({"x": inside},))[0]["x"][0]) is Tensor
    inside.append(inside)
    with pytest.raises(ValueError, match="contains itself"):
        default_convert(inside)


LOOP = """
    import re
    from pathlib import Path

    def taken():
        rss = int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
        maps = Path("/proc/self/maps").read_text().count("/dev/shm/ds_")
        return rss, maps, len(list(Path("/proc/self/fd").iterdir()))

    loader = DataLoader(Images(COUNT * 2), 2, num_workers=4, multiprocessing_context="fork")
    figures = []
    for i, (x, y) in enumerate(loader):
        assert x[1, 1].item() == y[1].item() == 2 * i + 1
        if i >= COUNT // 10 and i % (COUNT // 10) == 0:
            figures.append(taken())
    memory, maps, files = zip(*figures)
    print(max(memory) - min(memory), max(maps), max(files) - min(files))
"""


@needs_process_memory
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_process_and_shared_memory_stay_flat(count: int) -> None:
    program = run(dedent(LOOP).replace("COUNT", str(count)))
    out, errors = program.communicate(timeout=500)
    assert errors == ""
    grown, blocks, files = (int(word) for word in out.split())
    assert grown < 2_000  # kB
    assert blocks <= 4 * 4  # two batches ahead for each worker, the one that is out, the one being unpacked
    assert files <= 8


def test_figures_of_a_round_are_exact(window: Any) -> None:
    for _ in forked(Images(20), 2):
        pass
    del _
    assert window().live_count == 0
    assert window().created_outside_scope_count == 20
    assert statistics.live_count >= 0
