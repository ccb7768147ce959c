"""The thread pool runs each part once, for any caller, after forks and at exit, with the same results."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor.kernels.running import leave_core, record_pieces
from tensor.lowlevel import configure_threads

SIZE = 300_000


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = tensor.get_num_threads()
    tensor.set_num_threads(3)
    yield
    tensor.set_num_threads(before)
    configure_threads(awake_microseconds=100)


def starts_and_ends(size: int, grain: int) -> list[tuple[int, int]]:
    return [(start, min(start + grain, size)) for start in range(0, size, grain)]


def all_results() -> list[np.ndarray]:
    """What kernels of all kinds make of some numbers."""
    x = tensor.from_numpy(np.random.default_rng(0).standard_normal(SIZE).astype(np.float32))
    return [
        y.numpy()
        for y in (x.exp(), x.tanh(), tensor.gelu(x), x**5, x + x, x * 2.0, x.sin(), x > 0, x.long() + 1)
    ]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@given(size=st.integers(0, 200), grain=st.integers(1, 50), count=st.integers(1, 5))
def test_each_element_belongs_to_one_piece_whatever_the_number_of_threads(
    size: int, grain: int, count: int
) -> None:
    tensor.set_num_threads(count)
    assert [(start, end) for start, end, _ in record_pieces(size, grain)] == starts_and_ends(size, grain)


def threads_at_work(count: int) -> set[int]:
    tensor.set_num_threads(count)
    return {thread for _ in range(5) for _, _, thread in record_pieces(60, 1, microseconds=2000)}


def workers_take_pieces(count: int) -> bool:
    """Work until a worker has come, which the system may let wait for long."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if len(threads_at_work(count)) > 1:
            return True
    return False


def test_workers_take_pieces_too() -> None:
    assert workers_take_pieces(3)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_at_most_the_set_number_of_threads_work(count: int) -> None:
    assert len(threads_at_work(5)) <= 5  # workers that are there, and shall not be used
    assert len(threads_at_work(count)) <= count


@pytest.fixture
def cores() -> Iterator[set[int]]:
    """The cores that this thread may use, two at least, and all of them again at the end."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("no choice of cores")
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


def test_a_thread_leaves_its_core_and_may_use_it_again(cores: set[int]) -> None:
    for core in sorted(cores) * 10:
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, cores)  # it stays where it is, as a rule
        assert leave_core(core) in cores
        assert os.sched_getaffinity(0) == cores


def test_a_thread_that_leaves_a_core_is_on_another_one_at_once(cores: set[int]) -> None:
    core = min(cores)
    left = []
    for _ in range(50):
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, cores)
        left.append(leave_core(core) != core)
    # The system is free to bring it back in the moment between.
    assert sum(left) > 40


def test_thread_that_may_use_one_core_stays_on_it(cores: set[int]) -> None:
    core = min(cores)
    os.sched_setaffinity(0, {core})
    assert leave_core(core) == core
    assert os.sched_getaffinity(0) == {core}


def usable() -> dict[int, set[int]]:
    """Return the cores that each thread of this process may use."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread of an earlier test has ended meanwhile
            found[int(task.name)] = os.sched_getaffinity(int(task.name))
    return found


def set_usable(cores_of: dict[int, set[int]]) -> None:
    for thread, cores in cores_of.items():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def test_work_leaves_all_threads_the_cores_that_they_may_use(cores: set[int]) -> None:
    record_pieces(60, 1, microseconds=100)
    before = usable()
    # On one core with the workers, which have to be moved from there; and where they may not be.
    for core in sorted(cores)[:2]:
        set_usable({thread: {core} for thread in usable()})
        pinned = usable()
        record_pieces(60, 1, microseconds=100)
        assert usable().items() <= pinned.items()
        set_usable(before)
        record_pieces(60, 1, microseconds=100)
        assert usable().items() <= before.items()


@pytest.mark.soak
@pytest.mark.usefixtures("cores")
def test_woken_workers_move_from_the_core_of_the_calling_thread() -> None:
    tensor.set_num_threads(2)
    alone = []
    for _ in range(8):
        alone.append(0)
        for _ in range(50):
            time.sleep(0.002)  # the worker sleeps by then
            alone[-1] += len({thread for _, _, thread in record_pieces(40, 1, microseconds=20)}) == 1
    # On a busy machine the caller computes alone for a time. 49 of 50 where the system leaves a woken thread
    # on the core that wakes it.
    assert min(alone) < 40


def test_the_caller_computes_alone_after_a_worker_was_stopped_inside_its_piece() -> None:
    tensor.set_num_threads(2)
    until = time.monotonic() + 60
    alone: list[bool] = []
    while len(alone) < 9 and time.monotonic() < until:
        first = {thread for _, _, thread in record_pieces(20, 1, microseconds=20, worker_microseconds=4000)}
        began = time.monotonic()
        second = {thread for _, _, thread in record_pieces(20, 1, microseconds=20)}
        if len(first) == 2 and time.monotonic() - began < 0.05:  # the pool does not call workers yet
            alone.append(len(second) == 1)
        time.sleep(0.11)
    # All of them, but where the caller was stopped too, and did not have to wait.
    assert sum(alone) > len(alone) / 2
    assert workers_take_pieces(2)


def test_one_thread_does_all_itself() -> None:
    assert len(threads_at_work(1)) == 1


@pytest.mark.parametrize("awake", [0, 100, 100_000])
def test_workers_that_sleep_are_woken(awake: int) -> None:
    configure_threads(awake_microseconds=awake)
    for _ in range(20):
        assert len(record_pieces(64, 1)) == 64
        threading.Event().wait(0.002)
    assert workers_take_pieces(3)


def test_results_are_the_same_to_the_bit_for_any_number_of_threads() -> None:
    tensor.set_num_threads(1)
    expected = all_results()
    for count in (2, 3, 5):
        tensor.set_num_threads(count)
        assert same(all_results(), expected)


def test_eight_threads_of_the_user_ask_at_once() -> None:
    expected = all_results()
    right: list[bool] = []
    threads = [
        threading.Thread(target=lambda: right.extend([same(all_results(), expected) for _ in range(5)]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 40


def test_threads_of_the_user_share_the_workers_and_add_none() -> None:
    tensor.set_num_threads(5)
    record_pieces(60, 1)
    tensor.set_num_threads(3)
    own: set[int] = set()
    seen: set[int] = set()

    def work() -> None:
        own.update(thread for _, _, thread in record_pieces(1, 1))
        for _ in range(20):
            seen.update(thread for _, _, thread in record_pieces(30, 1, microseconds=100))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen - own) <= 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [32_768, 32_769, 65_535, 100_000, 98_305, 262_144])
def test_each_element_is_computed_whatever_the_size_and_the_number_of_threads(size: int, count: int) -> None:
    tensor.set_num_threads(count)
    x = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal((tensor.from_numpy(x) + 1.0).numpy(), x + 1)
    chosen = tensor.where(tensor.from_numpy(x % 3 > 0), tensor.from_numpy(x), 0.0)
    np.testing.assert_array_equal(chosen.numpy(), np.where(x % 3 > 0, x, 0))


def test_a_child_of_a_fork_has_workers_of_its_own() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    program = """
import os, threading, time
import tensor
from tensor.kernels.running import record_pieces
tensor.set_num_threads(3)

def work():
    for _ in range(300):
        assert len(record_pieces(60, 7)) == 9

def workers_take_pieces():
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if len({thread for _, _, thread in record_pieces(60, 1, microseconds=2000)}) > 1:
            return True
    return False

record_pieces(60, 1)
busy = [threading.Thread(target=work) for _ in range(4)]
for thread in busy:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0 if workers_take_pieces() else 1)
    assert os.waitpid(child, 0)[1] == 0
for thread in busy:
    thread.join()
assert workers_take_pieces()
"""
    # Python warns of forks while threads run, which is what this is about.
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=600)


def checksum(seed: int) -> float:
    x = np.random.default_rng(seed).standard_normal(SIZE)
    return float(tensor.from_numpy(x).exp().numpy().sum())


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks while threads run
def test_processes_compute_however_they_were_started(method: str) -> None:
    expected = [checksum(seed) for seed in range(4)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(checksum, range(4)).get(timeout=600) == expected


END = """
import tensor
from tensor.lowlevel import configure_threads
from tensor.kernels.running import record_pieces
tensor.set_num_threads(4)
configure_threads(awake_microseconds={awake})
record_pieces(64, 1)
{last}
"""


@pytest.mark.parametrize("awake", [0, 1_000_000])
@pytest.mark.parametrize(
    "last",
    [
        "",
        "raise SystemExit(0)",
        "import threading\nthreading.Thread(target=lambda: [record_pieces(9, 1) for _ in range(99)]).start()",
        "import atexit; atexit.register(record_pieces, 64, 1)",
    ],
)
def test_the_interpreter_ends_while_workers_sleep_or_are_awake(awake: int, last: str) -> None:
    subprocess.run([sys.executable, "-c", END.format(awake=awake, last=last)], check=True, timeout=600)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_an_interrupt_is_raised_after_the_work_and_breaks_nothing() -> None:
    class InterruptError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptError

    expected = all_results()
    before = signal.signal(signal.SIGALRM, interrupt)
    count = 0
    # Inside a callback of the collector the interpreter would report it instead of raising it.
    gc.disable()
    try:
        for i in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 20 * i))
                record_pieces(60, 1, microseconds=20)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except InterruptError:
                count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert count
    assert same(all_results(), expected)


def test_the_environment_sets_threads_and_how_long_they_stay_awake() -> None:
    program = "import tensor; print(tensor.get_num_threads())"
    for wanted, expected in (("3", "3"), ("2,4", "2"), ("100000", "256")):
        environment = {**os.environ, "OMP_NUM_THREADS": wanted, "DISPOSESCOPE_AWAKE_MICROSECONDS": "0"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinities")
def test_there_are_at_most_as_many_threads_as_usable_cores() -> None:
    program = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "import tensor; print(tensor.get_num_threads())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize("n", [0, -1, 257])
def test_the_number_of_threads_is_from_1_to_256(n: int) -> None:
    with pytest.raises(ValueError, match=r"set_num_threads: at (least|most)"):
        tensor.set_num_threads(n)


@pytest.mark.parametrize("n", [2.0, "2", True, None])
def test_the_number_of_threads_is_an_int(n: object) -> None:
    with pytest.raises(TypeError, match="set_num_threads takes an int"):
        tensor.set_num_threads(n)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(-1, ValueError), (2_000_000, ValueError), (float("nan"), ValueError), ("1", TypeError)],
)
def test_how_long_threads_stay_awake_is_a_number_of_microseconds(
    wrong: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match="configure_threads: awake_microseconds must be"):
        configure_threads(awake_microseconds=wrong)  # type: ignore[arg-type]


def test_threadpoolctl_lists_and_limits_the_pool() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    ours = [entry for entry in threadpoolctl.threadpool_info() if entry["internal_api"] == "disposescope"]
    assert [entry["num_threads"] for entry in ours] == [3]
    with threadpoolctl.threadpool_limits(1):
        assert tensor.get_num_threads() == 1
    assert tensor.get_num_threads() == 3
    with threadpoolctl.threadpool_limits({"disposescope": 2}):
        assert tensor.get_num_threads() == 2


@pytest.mark.parametrize("modules", ["threadpoolctl, tensor", "tensor, threadpoolctl"])
def test_threadpoolctl_lists_the_pool_for_each_order_of_imports(modules: str) -> None:
    pytest.importorskip("threadpoolctl")
    program = f"import {modules}; print(*(each['user_api'] for each in threadpoolctl.threadpool_info()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "disposescope" in done.stdout.split()


def test_tensor_does_not_load_threadpoolctl() -> None:
    program = "import sys, tensor; print('threadpoolctl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_pytorch_computes_in_the_same_process() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(SIZE)
    for _ in range(20):
        theirs = torch.from_numpy(x).exp().numpy()
        ours = tensor.from_numpy(x).exp().numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-15)
