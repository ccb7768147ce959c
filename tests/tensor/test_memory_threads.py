"""Threads that allocate, share, write, export and dispose: no value is wrong, and all is counted."""

from __future__ import annotations

import gc
import queue
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor, memory
from tests.threads import run_at_once

THREADS = 8
SIZES = [1, 10, 100, 3_000, 40_000, 140_000, 300_000]  # of float32; the largest two from the pool


@dataclass
class Carried:
    """A tensor, or an array over what was one, all of whose elements are `mark`."""

    x: Tensor | np.ndarray
    mark: float
    # Others look at the same memory: nobody writes.
    is_shared: bool = False

    def is_whole(self) -> bool:
        values = self.x if isinstance(self.x, np.ndarray) else self.x._array
        return bool(values.min() == self.mark == values.max())


class Worker:
    def __init__(self, me: int, boxes: list[queue.SimpleQueue[Carried]], failures: list[str]) -> None:
        self.random = random.Random(me)
        self.me = me
        self.boxes = boxes
        self.failures = failures
        self.held: list[Carried] = []
        self.done: Counter[str] = Counter()
        self.releases: list[int] = []
        self.exports = 0

    def run(self, rounds: int, begin: threading.Barrier) -> None:
        steps: list[Callable[[], None]] = [
            *[self.make, self.write, self.clone, self.let_go, self.send_a_clone, self.compute] * 4,
            *[self.send, self.send_an_alias, self.export, self.borrow, self.donate, self.in_a_scope] * 2,
            *[self.backward, self.look, self.trim],
        ]
        begin.wait()
        try:
            for _ in range(rounds):
                step = self.random.choice(steps)
                step()
                self.done[step.__name__] += 1
                while not self.boxes[self.me].empty():
                    self.held.append(self.boxes[self.me].get())
                while len(self.held) > 20:
                    self.let_go()
        except Exception as error:  # noqa: BLE001  # told by the test's own thread
            self.failures.append(f"{step.__name__}: {error!r}")

    def mark(self) -> float:
        return float(self.random.randrange(1 << 20))

    def pick(self, *, kind: type = Tensor, written: bool = False) -> Carried | None:
        found = [c for c in self.held if isinstance(c.x, kind) and not (written and c.is_shared)]
        return self.random.choice(found) if found else None

    def hand_over(self, carried: Carried) -> None:
        self.boxes[self.random.randrange(THREADS)].put(carried)

    def check(self, carried: Carried, what: str) -> None:
        if not carried.is_whole():
            self.failures.append(f"{what}: not {carried.mark}")

    def make(self) -> None:
        mark = self.mark()
        n = self.random.choice(SIZES)
        self.held.append(Carried(tensor.full((n,), mark, dtype="float32"), mark))

    def write(self) -> None:
        carried = self.pick(written=True)
        if carried is None:
            return
        self.check(carried, "before a write")
        carried.mark += 1
        if self.random.random() < 0.5:
            carried.x += 1
        else:
            carried.x.fill_(carried.mark)
        self.check(carried, "after a write")

    def clone(self) -> None:
        carried = self.pick()
        if carried is not None:
            self.held.append(Carried(carried.x.clone(), carried.mark))

    def send_a_clone(self) -> None:
        carried = self.pick()
        if carried is not None:
            self.hand_over(Carried(carried.x.clone(), carried.mark))

    def send_an_alias(self) -> None:
        carried = self.pick()
        if carried is not None:
            carried.is_shared = True
            x = carried.x.alias() if self.random.random() < 0.5 else carried.x[len(carried.x) // 2 :]
            self.hand_over(Carried(x, carried.mark, is_shared=True))

    def send(self) -> None:
        if self.held:
            self.hand_over(self.held.pop(self.random.randrange(len(self.held))))

    def compute(self) -> None:
        carried = self.pick()
        if carried is not None:
            self.held.append(Carried(carried.x + 3, carried.mark + 3))

    def export(self) -> None:
        carried = self.pick(written=True)
        if carried is not None:
            array = carried.x.numpy()
            carried.mark += 1
            array += 1
            self.check(carried, "after a write through an array")
            carried.is_shared = True
            self.hand_over(Carried(array, carried.mark, is_shared=True))

    def borrow(self) -> None:
        mark = self.mark()
        n = self.random.choice(SIZES)
        buffer = bytearray(np.full(n, mark, np.float32).tobytes())
        x = tensor.from_blob(buffer, (n,), "float32", on_release=lambda: self.releases.append(n))
        self.exports += 1
        self.held.append(Carried(x, mark))

    def donate(self) -> None:
        carried = self.pick()
        if carried is not None:
            carried.x, carried.is_shared = carried.x.donate() + 1, False
            carried.mark += 1

    def in_a_scope(self) -> None:
        carried = self.pick()
        if carried is not None:
            with new_dispose_scope() as scope:
                x = carried.x * 2
                y = scope.detach(x - carried.mark)
            assert x.is_invalid
            self.hand_over(Carried(y, carried.mark))

    def backward(self) -> None:
        carried = self.pick()
        if carried is not None:
            weight = tensor.ones((len(carried.x),), requires_grad=True)
            loss = (weight * carried.x).sum()
            if not carried.is_shared:
                carried.x += 1
                carried.mark += 1
                self.check(Carried(carried.x, carried.mark), "after a write to what is saved")
                saved = carried.mark - 1
            else:
                saved = carried.mark
            loss.backward()
            self.check(Carried(weight.grad, saved), "a gradient")

    def let_go(self) -> None:
        if self.held:
            carried = self.held.pop(self.random.randrange(len(self.held)))
            self.check(carried, "before it goes")
            if isinstance(carried.x, Tensor) and self.random.random() < 0.5:
                carried.x.dispose()

    def look(self) -> None:
        now = memory.statistics()
        if min(now.bytes_live, now.bytes_pinned, now.bytes_external, now.bytes_freed) < 0:
            self.failures.append(f"a figure is negative: {now}")

    def trim(self) -> None:
        memory.trim(self.random.randrange(1 << 22))


@pytest.mark.parametrize("rounds", [500, pytest.param(30_000, marks=pytest.mark.soak)])
def test_threads_that_share_memory_see_no_wrong_value_and_every_byte_is_counted(rounds: int) -> None:
    gc.collect()
    before, lives = memory.statistics(), statistics.live_count
    failures: list[str] = []
    boxes: list[queue.SimpleQueue[Carried]] = [queue.SimpleQueue() for _ in range(THREADS)]
    workers = [Worker(me, boxes, failures) for me in range(THREADS)]
    begin = threading.Barrier(THREADS)
    run_at_once(threading.Thread(target=worker.run, args=(rounds, begin)) for worker in workers)
    assert not failures
    done = sum([worker.done for worker in workers], Counter())
    assert len(done) == 15
    exports = sum(worker.exports for worker in workers)
    for worker, box in zip(workers, boxes, strict=True):
        while not box.empty():
            worker.held.append(box.get())
        assert all(carried.is_whole() for carried in worker.held)
        worker.held.clear()
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned, change.bytes_external) == (0, 0, 0)
    assert change.bytes_allocated == change.bytes_freed > 0
    assert sum(len(worker.releases) for worker in workers) == exports
    assert statistics.live_count == lives
