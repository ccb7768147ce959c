"""Long and hostile runs, each in a process of its own: ``python -m tests.hostile_runs flat 1000000``.

Each prints its figures as one line of JSON, and fails where a promise of docs/reliability.md does not hold.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import nn
import tensor
from scopes import current_dispose_scope, new_dispose_scope, statistics, track
from tensor import memory
from tests.process import resident_bytes

Figures = dict[str, float]
MIB = 1 << 20


class Training:
    """A small network with its optimizer, on fixed data."""

    def __init__(self, width: int = 64) -> None:
        tensor.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10))
        self.optimizer = nn.optim.Adam(self.model.parameters())
        self.inputs = tensor.randn(16, 32)
        self.targets = tensor.arange(16) % 10
        self.step()

    def step(self) -> None:
        with new_dispose_scope():
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(self.inputs), self.targets).backward()
            self.optimizer.step()

    def alive(self) -> tuple[object, ...]:
        """Return what must be the same after each step, whole or not."""
        self.optimizer.zero_grad()
        return (
            statistics.live_count,
            memory.statistics().bytes_live,
            tensor.is_grad_enabled(),
            current_dispose_scope(),
        )


def flat(count: int) -> Figures:
    """Run `count` ops in scopes of 1,000: the resident size after the last is that after the first tenth."""
    x = tensor.ones((100,))
    sizes = []
    for tenth in range(10):
        for _ in range(max(count // 10_000, 1)):
            with new_dispose_scope():
                y = x
                for _ in range(1000):
                    y = y * 1.0001
        sizes.append(resident_bytes())
        assert statistics.live_count == 1, tenth
    growth = sizes[-1] / sizes[0] - 1
    assert growth < 0.01, sizes
    return {"ops": count, "resident_mib": sizes[-1] / MIB, "growth_percent": 100 * growth}


class InterruptError(Exception):
    """Raised by the timer's signal."""


def interrupts(count: int) -> Figures:
    """Interrupt training at `count` random moments: nothing stays alive, and the next step works."""
    armed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise InterruptError

    # A destructor that the signal comes upon drops the exception: the step then ends whole.
    sys.unraisablehook = lambda unraisable: None
    signal.signal(signal.SIGALRM, interrupt)
    training = Training()
    took = []
    for _ in range(100):
        began = time.perf_counter()
        training.step()
        took.append(time.perf_counter() - began)
    most = min(took)
    start = training.alive()
    rng = random.Random(count)
    steps = hits = between = 0
    while hits < count:
        steps += 1
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, most))
            training.step()
        except InterruptError:
            hits += 1
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        left = current_dispose_scope()
        if left is not None:  # the signal came between the call of new_dispose_scope() and `with`
            between += 1
            assert len(left) == 0
            left.dispose()
        assert training.alive() == start, f"interrupt {hits}: {training.alive()} after {start}"
    training.step()
    return {"steps": steps, "interrupted": hits, "before_with": between}


def address_space(count: int) -> Figures:
    """Train in `count` children whose address space ends a random number of bytes from now."""
    training = Training(512)
    start = training.alive()
    rng = random.Random(count)
    refused = 0
    for i in range(count):
        room = rng.randrange(200 * MIB)
        refused += _in_child(lambda room=room: _short_of_memory(training, start, room), i)
    return {"children": count, "refused": refused}


def _short_of_memory(training: Training, start: tuple[object, ...], room: int) -> bool:
    # What is kept for reuse goes back first, so that the step needs memory of the system.
    memory.trim()
    used = 4096 * int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        with new_dispose_scope():
            for rows in (1000, 4000, 16_000):
                training.model(tensor.ones((rows, 32))).sum().backward()
        is_refused = False
    except MemoryError:
        is_refused = True
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    assert training.alive() == start
    training.step()
    return is_refused


def open_files(count: int) -> Figures:
    """Save and load where `count` times no file can be opened."""
    training = Training()
    start = training.alive()
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        tensor.save_file(training.model.state_dict(), path)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for i in range(count):
            action = [
                lambda: tensor.load_file(path),
                lambda: tensor.save_file(training.model.state_dict(), path),
            ]
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                with new_dispose_scope():
                    action[i % 2]()
            except OSError:
                refused += 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert training.alive() == start, i
            assert [*Path(folder).iterdir()] == [path], i
        with new_dispose_scope():
            assert len(tensor.load_file(path)) == 4
    assert refused == count
    return {"calls": count, "refused": refused}


def full_disk(count: int) -> Figures:
    """Save where the file may not grow beyond a random size: the old file stays, and nothing beside it."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails instead
    training = Training()
    start = training.alive()
    rng = random.Random(count)
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        savers: list[tuple[str, Callable[[object, Path], None], Callable[[Path], object]]] = [
            ("model.safetensors", tensor.save_file, tensor.load_file),
            ("model.dsc", tensor.save, tensor.load),
        ]
        for name, save, load in savers:
            path = Path(folder, name)
            save(training.model.state_dict(), path)
            before = path.read_bytes()
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            for i in range(count // len(savers)):
                resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(len(before)), hard))
                try:
                    save(training.model.state_dict(), path)
                except OSError:
                    refused += 1
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                assert path.read_bytes() == before, i
                assert training.alive() == start, i
            with new_dispose_scope():
                load(path)
        assert {path.name for path in Path(folder).iterdir()} == {name for name, _, _ in savers}
    return {"saves": count, "refused": refused}


def killed_writers(count: int) -> Figures:
    """Kill `count` processes that save again and again: each leaves one whole file."""
    rng = random.Random(count)
    partial = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        for i in range(count):
            path.unlink(missing_ok=True)
            child = os.fork()
            if child == 0:
                _save_for_ever(path)
            while not path.exists():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            with new_dispose_scope():
                values = {float(x.min()) for x in tensor.load_file(path).values()}
            assert len(values) == 1, (i, values)
            for other in set(path.parent.iterdir()) - {path}:
                partial += 1
                other.unlink()
    return {"killed": count, "partial_files_beside_it": partial}


def _save_for_ever(path: Path) -> None:
    try:
        signal.alarm(120)
        for i in itertools.count():
            tensor.save_file({name: tensor.full((1 << 14,), float(i)) for name in "abcd"}, path)
    finally:
        os._exit(1)


def forks(count: int) -> Figures:
    """Fork `count` times in an open scope, tracking on, while other threads work: each child goes on."""
    warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forks while threads run
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            with new_dispose_scope():
                (tensor.ones((100, 100)) + 1).exp().sum()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with track(), new_dispose_scope("parent") as scope:
            x = tensor.ones((1000,))
            for i in range(count):
                _in_child(lambda: _goes_on(scope, x), i)
            assert not x.is_invalid
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert statistics.live_count == 0
    return {"forks": count}


def _goes_on(scope: object, x: tensor.Tensor) -> bool:
    assert current_dispose_scope() is scope
    with new_dispose_scope("child"):
        y = x * 2
        assert y.sum().item() == 2000
    assert y.is_invalid
    assert not x.is_invalid
    x.dispose()
    return True


def _in_child(run: Callable[[], bool], number: int) -> bool:
    child = os.fork()
    if child == 0:
        status = 3
        try:
            signal.alarm(120)  # a child that hangs ends
            status = 0 if run() else 1
        except BaseException:  # noqa: BLE001  # the child's whole program
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 1), f"child {number} ended with {code}"
    return code == 0


RUNS: dict[str, Callable[[int], Figures]] = {
    run.__name__: run
    for run in (flat, interrupts, address_space, open_files, full_disk, killed_writers, forks)
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(RUNS[sys.argv[1]](int(sys.argv[2]))))
