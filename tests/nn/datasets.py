"""Data sets for worker processes, which import this module, and what is left of such processes."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensor
from nn.data import Dataset, IterableDataset, get_worker_info

LARGE = 1200  # float32 numbers: more than the 4096 bytes from which on tensors come in shared memory


class Images(Dataset[tuple[tensor.Tensor, int]]):
    """Large samples, each full of its number."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[tensor.Tensor, int]:
        return tensor.full((LARGE,), float(i)), i


class Slow(Images):
    """Takes its time, and far too much of it for one sample."""

    def __init__(self, count: int, endless: int = -1) -> None:
        super().__init__(count)
        self.endless = endless

    def __getitem__(self, i: int) -> tuple[tensor.Tensor, int]:
        time.sleep(1000 if i == self.endless else 0.001)
        return super().__getitem__(i)


class Failing(Images):
    def __getitem__(self, i: int) -> tuple[tensor.Tensor, int]:
        if i == 5:
            raise LookupError("sample 5 is broken", 5)
        return super().__getitem__(i)


class OddError(Exception):
    """Can't be unpickled: it asks for more than its message."""

    def __init__(self, one: object, other: object) -> None:
        super().__init__(f"{one} and {other}")


class FailingOddly(Images):
    def __getitem__(self, i: int) -> tuple[tensor.Tensor, int]:
        raise OddError(i, i)


class EndingItself(Images):
    """Ends its process in the middle of its work, in one way or another."""

    def __init__(self, count: int, code: int) -> None:
        super().__init__(count)
        self.code = code

    def __getitem__(self, i: int) -> tuple[tensor.Tensor, int]:
        if i == 7:
            faulthandler.disable()
            if self.code < 0:
                os.kill(os.getpid(), -self.code)
            os._exit(self.code)
        return super().__getitem__(i)


class Drawn(Images):
    """Random samples: NumPy's, Python's, ours, and the seed of the worker."""

    def __getitem__(self, i: int) -> Any:
        import random

        info = get_worker_info()
        assert info is not None
        return [tensor.rand(1).item(), random.random(), float(np.random.random()), info.seed, info.id]


class Counting(IterableDataset[int]):
    """Counts from 0, or where it is shared out, each worker its part; worker 0 one more than others."""

    def __init__(self, count: int, shared_out: bool = True) -> None:
        self.count = count
        self.shared_out = shared_out

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is None or not self.shared_out:
            return iter(range(self.count))
        return iter(range(info.id, self.count, info.num_workers))


def identity(samples: Any) -> Any:
    return samples


def say_hello(worker: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.count += 100 * worker


class Unreadable:
    """A number of a sample that goes to a worker, and can't be read there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def refuse(worker: int) -> None:
    raise PermissionError(f"worker {worker} may not")


def interrupt_parent(worker: int) -> None:
    del worker
    os.kill(os.getppid(), signal.SIGINT)


def children() -> set[int]:
    """Return the processes that this one has started, without what `multiprocessing` keeps for later."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text(encoding="utf-8")
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue  # ended meanwhile
        state, parent = text.rpartition(")")[2].split()[:2]
        if int(parent) == os.getpid() and state != "Z" and not is_kept(command):
            found.add(int(status.parent.name))
    return found


def is_kept(command: bytes) -> bool:
    return b"resource_tracker" in command or b"forkserver import main" in command


def names_of_blocks(process: int | None = None) -> set[str]:
    """Return the names of shared memory made for loaders of this process, or of another one."""
    return {path.name for path in Path("/dev/shm").glob(f"ds_{process or os.getpid()}_*")}


def wait_until(condition: Any, seconds: float = 300.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
