"""Work in pieces: each piece once, on several threads, as if the caller had done it alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor.kernels import in_pieces


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = tensor.get_num_threads()
    tensor.set_num_threads(3)
    yield
    tensor.set_num_threads(before)


def both_work(size: int = 8) -> set[int]:
    """Let pieces wait until some other thread has begun one; return who worked."""
    seen: set[int] = set()
    two = threading.Event()

    def run(start: int, end: int) -> None:
        seen.add(threading.get_ident())
        if len(seen) > 1:
            two.set()
        two.wait(5)

    in_pieces(run, size, 1)
    return seen


@given(size=st.integers(0, 200), step=st.integers(1, 50), count=st.integers(1, 5))
def test_each_place_belongs_to_one_piece(size: int, step: int, count: int) -> None:
    tensor.set_num_threads(count)
    hits = np.zeros(size, np.int64)
    pieces: list[tuple[int, int]] = []

    def run(start: int, end: int) -> None:
        hits[start:end] += 1
        pieces.append((start, end))

    in_pieces(run, size, step)
    assert hits.tolist() == [1] * size
    assert sorted(pieces) == [(start, min(start + step, size)) for start in range(0, size, step)]


def test_workers_take_pieces_too() -> None:
    assert len(both_work()) > 1


def test_one_thread_does_all_itself() -> None:
    tensor.set_num_threads(1)
    seen: set[int] = set()
    in_pieces(lambda start, end: seen.add(threading.get_ident()), 100, 10)
    assert seen == {threading.get_ident()}


def test_an_error_of_a_worker_is_raised_by_the_caller_without_frames_that_hold_arrays() -> None:
    caller = threading.get_ident()
    failed = threading.Event()

    def run(start: int, end: int) -> None:
        if threading.get_ident() != caller:
            failed.set()
            raise KeyError("a worker's")
        failed.wait(5)

    with pytest.raises(KeyError, match="a worker's") as caught:
        in_pieces(run, 8, 1)
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "_in_pieces"
    assert len(both_work()) > 1  # the worker lives


def test_an_error_of_the_caller_waits_for_the_workers() -> None:
    caller = threading.get_ident()
    begun = threading.Event()
    done: list[int] = []

    def run(start: int, end: int) -> None:
        if threading.get_ident() == caller:
            begun.wait(5)
            raise KeyError("the caller's")
        begun.set()
        sleep(0.05)
        done.append(start)

    with pytest.raises(KeyError, match="the caller's"):
        in_pieces(run, 8, 1)
    assert done


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_an_interrupted_caller_waits_for_the_workers() -> None:
    caller = threading.get_ident()
    begun = threading.Event()
    done: list[int] = []

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def run(start: int, end: int) -> None:
        if threading.get_ident() == caller:
            begun.wait(5)
            return
        begun.set()
        sleep(0.2)
        done.append(start)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            in_pieces(run, 2, 1)
        assert done == [0] or done == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_interrupts_at_any_moment_leave_nobody_computing() -> None:
    class InterruptError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptError

    x = np.full(1 << 17, 2.0)
    out = np.empty_like(x)
    is_over = False
    late: list[int] = []
    count = 0

    def run(start: int, end: int) -> None:
        np.log(x[start:end], out=out[start:end])
        if is_over:
            late.append(start)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(400):
            is_over = False
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 3 * i))
                in_pieces(run, x.size, 1 << 13)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except InterruptError:
                count += 1
            is_over = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert count
    assert late == []
    assert np.allclose(halves(x), np.log(x), rtol=1e-14)


def halves(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    in_pieces(lambda start, end: np.log(x[start:end], out=out[start:end]), x.size, 1 << 14)
    return out


def test_nobody_hears_of_infinities_whatever_numpy_is_set_to() -> None:
    with np.errstate(all="raise"):
        assert np.all(halves(np.zeros(1 << 18)) == -np.inf)
        assert np.all(np.isnan(halves(np.full(1 << 18, -1.0))))


def test_pieces_may_be_cut_into_pieces() -> None:
    hits = np.zeros((8, 100), np.int64)

    def outer(start: int, end: int) -> None:
        def inner(first: int, last: int) -> None:
            hits[start:end, first:last] += 1

        in_pieces(inner, 100, 7)

    in_pieces(outer, 8, 1)
    assert np.all(hits == 1)


def test_many_threads_of_the_user_ask_at_once() -> None:
    results: list[bool] = []

    def ask(seed: int) -> None:
        x = np.random.default_rng(seed).random(1 << 18) + 1
        results.append(all(np.allclose(halves(x), np.log(x), rtol=1e-14) for _ in range(20)))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_and_its_parent_have_workers_of_their_own() -> None:
    assert len(both_work()) > 1
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if len(both_work()) > 1 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(both_work()) > 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_others_compute() -> None:
    stop = threading.Event()
    x = np.full(1 << 16, 2.0)

    def compute() -> None:
        while not stop.is_set():
            assert np.allclose(halves(x), np.log(x), rtol=1e-14)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.allclose(halves(x), np.log(x), rtol=1e-14) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


SHUTDOWN = """
import threading, numpy as np, tensor
from tensor.kernels import in_pieces
tensor.set_num_threads(3)
x = np.ones(1 << 20)
def forever():
    while True:
        in_pieces(lambda start, end: np.exp(x[start:end]), x.size, 1 << 14)
threading.Thread(target=forever, daemon=True).start()
in_pieces(lambda start, end: np.exp(x[start:end]), x.size, 1 << 14)
"""


def test_the_interpreter_ends_while_workers_are_busy() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", SHUTDOWN], capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_nobody_is_hired_before_there_is_large_work() -> None:
    code = "import threading, _thread, tensor; tensor.ones((3,)).exp(); print(_thread._count())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=True, text=True
    )
    assert done.stdout == "0\n"


@pytest.mark.parametrize("n", [0, -1])
def test_at_least_one_thread_computes(n: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        tensor.set_num_threads(n)


@pytest.mark.parametrize("n", [1.0, "2", True, None])
def test_a_number_of_threads_is_an_int(n: object) -> None:
    with pytest.raises(TypeError, match="takes an int"):
        tensor.set_num_threads(n)  # type: ignore[arg-type]
