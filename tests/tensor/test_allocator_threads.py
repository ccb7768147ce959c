"""Threads and forks at the allocator: counts are exact, no block is given twice, no child waits."""

from __future__ import annotations

import gc
import os
import queue
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

from tensor import memory
from tensor.memory import allocator
from tensor.memory.allocator import Bound, Watch, is_counted, pooled
from tests.threads import run_at_once

THREADS = 8
SIZES = [1, 100, 9_000, 70_000, 300_000, 2_500_000]


class Worker(threading.Thread):
    def __init__(self, me: int, box: queue.SimpleQueue[np.ndarray], rounds: int) -> None:
        super().__init__()
        self.random = random.Random(me)
        self.mark = me + 1
        self.box = box
        self.rounds = rounds
        self.held: list[np.ndarray] = []
        self.failures: list[str] = []
        self.allocated = self.count = 0

    def run(self) -> None:
        try:
            for _ in range(self.rounds):
                self.step(self.random.random())
        except BaseException as error:  # noqa: BLE001  # told by the test's own thread
            self.failures.append(repr(error))
        self.held.clear()

    def step(self, chance: float) -> None:
        if chance < 0.5:
            n = self.random.choice(SIZES)
            with pooled():
                array = np.zeros(n, np.uint8) if chance < 0.2 else np.empty(n, np.uint8)
            if chance < 0.2 and array.any():
                self.failures.append("zeros that are none")
            array.fill(self.mark)
            if is_counted(array):
                self.allocated += n
                self.count += 1
            self.held.append(array)
        elif chance < 0.7 and self.held:
            array = self.held.pop(self.random.randrange(len(self.held)))
            if array.min() != self.mark or array.max() != self.mark:
                self.failures.append("somebody else wrote to the block")
            if chance < 0.6:
                self.box.put(array)  # freed on another thread
        elif chance < 0.8:
            while not self.box.empty():
                self.box.get_nowait() if self.box.qsize() > THREADS else self.box.get()
        elif chance < 0.9:
            assert allocator.count_small(100)
            self.allocated += 100
            self.count += 1
            allocator.uncount_small(100, False)
        elif chance < 0.95 and self.held and is_counted(self.held[-1]):
            allocator.pin(self.held[-1], self.held[-1].nbytes)
        elif chance < 0.96:
            memory.trim(self.random.randrange(5_000_000))
        elif chance < 0.98:
            bound = Bound(2**40)
            bound.set()
            figures = memory.statistics()
            assert min(figures) >= 0
            assert figures.bytes_peak >= figures.bytes_live
        while len(self.held) > 30:
            self.held.pop(0)


@pytest.mark.parametrize("rounds", [400, pytest.param(50_000, marks=pytest.mark.soak)])
def test_threads_that_allocate_share_and_free_leave_every_figure_exact(rounds: int) -> None:
    gc.collect()
    memory.trim()
    start = memory.statistics()
    boxes: list[queue.SimpleQueue[np.ndarray]] = [queue.SimpleQueue() for _ in range(THREADS)]
    workers = [Worker(i, boxes[(i + 1) % THREADS], rounds) for i in range(THREADS)]
    watch = Watch()
    watch.start()
    run_at_once(workers)
    boxes.clear()
    for worker in workers:
        worker.box = queue.SimpleQueue()
    assert [worker.failures for worker in workers] == [[]] * THREADS
    end = memory.statistics() - start
    assert (end.bytes_live, end.bytes_pinned, end.bytes_overhead) == (0, 0, 0)
    assert end.bytes_allocated == end.bytes_freed == sum(worker.allocated for worker in workers)
    assert end.allocation_count == sum(worker.count for worker in workers)
    assert watch.nbytes > start.bytes_live
    assert allocator.current_limit() is None
    assert memory.trim() + memory.trim() == end.bytes_cached
    assert memory.statistics().bytes_cached == 0


def test_threads_at_a_limit_never_get_more_than_it_allows() -> None:
    gc.collect()
    memory.trim()
    before = memory.configuration()
    memory.configure(min_pooled_bytes=2**14)  # whatever a test before this one has left
    start = memory.statistics()
    most = start.bytes_live + start.bytes_pinned + 3_000_000
    refused = []

    def run(me: int) -> None:
        held: list[np.ndarray] = []
        for _ in range(300):
            try:
                with pooled():
                    held.append(np.empty(100_000 + me, np.uint8))
            except MemoryError:
                refused.append(me)
                held.clear()
            while not allocator.count_small(1000):
                held.clear()
            allocator.uncount_small(1000, False)

    watch = Watch()
    watch.start()
    with memory.limit(most):
        run_at_once([threading.Thread(target=run, args=(i,)) for i in range(THREADS)])
    memory.configure(**before._asdict())
    assert refused
    assert watch.nbytes <= most
    assert memory.statistics().bytes_live == start.bytes_live


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("forks", [30, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_child_forked_during_allocations_continues_by_itself(forks: int) -> None:
    go_on = True

    def run() -> None:
        # Peaks, limits, bins and trims: each takes a mutex.
        while go_on:
            watch, bound = Watch(), Bound(2**40)
            watch.start()
            bound.set()
            with pooled():
                np.empty(100_000, np.uint8), np.empty(1_000_000, np.uint8)
            memory.trim(500_000)

    threads = [threading.Thread(target=run) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        codes = [_code_of_child() for _ in range(forks)]
    finally:
        go_on = False
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert set(codes) == {0}


def _code_of_child() -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            before = memory.statistics().bytes_live
            watch = Watch()
            watch.start()
            with pooled():
                x = np.ones(100_000)
            memory.trim()
            code = 0 if watch.nbytes >= before + x.nbytes and (x == 1).all() else 2
        finally:
            os._exit(code)
    # An hour in a hung child would tell no more than three minutes; others may wait for the processor.
    until = time.monotonic() + 180
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 3
