"""What is promised to take no memory, at the size at which it is promised; two processes on one memory."""

from __future__ import annotations

import array
import gc
import mmap
import multiprocessing
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope
from tensor import memory
from tests.process import resident_bytes
from tests.tensor.headers import entry, with_header

MIB = 1 << 20


class Taken:
    """Measures what a block takes: by our own books, by Python's and NumPy's, and by the system's."""

    def __enter__(self) -> Taken:
        gc.collect()
        memory.trim()
        tracemalloc.start()
        self._resident = resident_bytes()
        self._ours = memory.measure()
        self._ours.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.__exit__(kind, error, trace)
        self.allocated = self._ours.allocated_bytes
        self.resident = resident_bytes() - self._resident
        self.traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    @property
    def is_nothing(self) -> bool:
        return self.allocated < 1_000 and self.traced < MIB and self.resident < 4 * MIB

    def is_one_copy_of(self, nbytes: int) -> bool:
        is_all = self.traced < nbytes + MIB and self.resident < nbytes + 4 * MIB
        return nbytes <= self.allocated < nbytes + 1_000 and is_all


# Clones


def test_a_hundred_clones_of_400_megabytes_take_no_memory() -> None:
    x = tensor.zeros((100_000_000,))
    with Taken() as taken:
        clones = [x.clone() for _ in range(100)]
        clones += [clone.clone() for clone in clones]
    assert taken.is_nothing
    assert len({clone.data_ptr() for clone in clones}) == 1


@pytest.mark.parametrize("writer", ["original", "clone"])
def test_the_first_write_costs_one_copy_and_no_other_write_costs_any(writer: str) -> None:
    x = tensor.ones((16 * MIB,))
    clone = x.clone()
    written, other = (x, clone) if writer == "original" else (clone, x)
    with Taken() as taken:
        written[0] = 2.0
    assert taken.is_one_copy_of(64 * MIB)
    with Taken() as taken:
        written += 1
        other += 1
        other[1:].zero_()
        other.fill_(5.0)
    assert taken.is_nothing
    assert (written[:2].tolist(), other[:2].tolist()) == ([3.0, 2.0], [5.0, 5.0])


def test_the_first_write_copies_once_however_many_views_look() -> None:
    x = tensor.ones((16 * MIB,))
    views = [x.alias(), x[1:], x.reshape(-1, MIB)]
    clone = x.clone()
    with Taken() as taken:
        views[1][0] = 7.0
        x[0] = 6.0
        views[2] += 1
    assert taken.is_one_copy_of(64 * MIB)
    assert x[:3].tolist() == views[0][:3].tolist() == [7.0, 8.0, 2.0]
    assert clone[:3].tolist() == [1.0, 1.0, 1.0]


def test_detached_tensors_aliases_views_and_exports_take_no_memory() -> None:
    x = tensor.zeros((100_000_000,), requires_grad=True)
    with Taken() as taken:
        kept: list[object] = [x.detach(), x.alias(), x.reshape(1_000, -1).T[1:], x.detach().expand(10, -1)]
        kept += [np.asarray(x.detach()), np.from_dlpack(x.detach())]
    assert taken.is_nothing
    assert len(kept) == 6


# Memory of others

N_BYTES = 80_000_000


def of_a_file(folder: Path) -> Path:
    path = folder / "sparse"
    with path.open("wb") as file:
        file.truncate(N_BYTES)
    return path


def mapped(folder: Path) -> mmap.mmap:
    with of_a_file(folder).open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda folder: bytes(N_BYTES),
    "bytearray": lambda folder: bytearray(N_BYTES),
    "array": lambda folder: array.array("f", bytes(N_BYTES)),
    "memoryview": lambda folder: memoryview(bytearray(N_BYTES)),
    "mmap of a file": mapped,
    "mmap of no file": lambda folder: mmap.mmap(-1, N_BYTES),
    "memmap": lambda folder: np.memmap(of_a_file(folder), np.float32, "r+"),
    "read-only memmap": lambda folder: np.memmap(of_a_file(folder), np.float32, "r"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_blob_of_80_megabytes_takes_no_memory(name: str, tmp_path: Path) -> None:
    source = SOURCES[name](tmp_path)
    with Taken() as taken, new_dispose_scope():
        x = tensor.from_blob(source, (N_BYTES // 4,), "float32")
        strided = tensor.from_blob(source, (100, 1_000), "float32", strides=(200_000, 2), offset=400)
        assert x[-1].item() == strided[99, 999].item() == 0.0
    assert taken.is_nothing


def test_a_write_through_an_expanded_view_of_read_only_memory_leaves_it_untouched() -> None:
    theirs = np.zeros(4, np.float32)
    shown = theirs[...]
    shown.flags.writeable = False  # over memory that others may write to
    x = tensor.from_numpy(shown)
    row = x.unsqueeze(0).expand(2, 4)[::2]
    row.copy_(tensor.ones((1, 4)))
    assert theirs.tolist() == [0.0] * 4
    assert x.tolist() == [1.0] * 4


def test_the_first_write_over_read_only_memory_costs_one_copy() -> None:
    source = bytes(64 * MIB)
    x = tensor.from_blob(source, (16 * MIB,), "float32")
    tensor.memory.trim()  # a block that is there already would not be seen as taken
    with Taken() as taken:
        x += 1
        x += 1
    assert taken.is_one_copy_of(64 * MIB)
    assert source[:4] == bytes(4)


def test_a_source_closes_right_after_its_scope_though_an_exception_of_the_scope_is_kept() -> None:
    source = mmap.mmap(-1, 64)
    kept = None
    try:
        with new_dispose_scope():
            x = tensor.from_blob(source, (4, 4), "float32")
            views = [x[1:], x.T, x.alias(), x.detach()]
            x @ tensor.ones((3, 3))
    except ValueError as error:
        kept = error
    assert kept is not None
    assert all(view.is_invalid for view in views)
    source.close()


def test_threads_that_release_at_the_same_time_release_once() -> None:
    for _ in range(50):
        released: list[int] = []
        x = tensor.from_blob(bytearray(64), (16,), "float32", on_release=lambda r=released: r.append(1))
        holders = [[x, x[1:], x.alias().numpy()] for _ in range(8)]
        del x
        start = threading.Barrier(8)

        def let_go(held: list[Any], start: threading.Barrier = start) -> None:
            start.wait()
            held.clear()

        threads = [threading.Thread(target=let_go, args=(held,)) for held in holders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert released == [1]


# Files


def test_a_loaded_gigabyte_is_not_read_and_one_written_tensor_is_one_copy(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    part = 64 * MIB
    content = {f"x{n}": entry("F32", (part // 4,), (n * part, (n + 1) * part)) for n in range(16)}
    start = with_header(content)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + 16 * part)
    tensor.load_file(path)  # the first call loads code
    with Taken() as taken:
        loaded = tensor.load_file(path)
        clones = {name: x.clone() for name, x in loaded.items()}
    assert taken.is_nothing
    with Taken() as taken:
        loaded["x3"].fill_(1.0)
    assert part <= taken.allocated < part + 1_000
    # The copy reads the pages of the file too, and those are there as long as they are mapped.
    assert taken.resident < 2 * part + 4 * MIB
    assert (clones["x3"][0].item(), loaded["x4"][0].item()) == (0.0, 0.0)
    with path.open("rb") as file:
        file.seek(len(start) + 3 * part)
        assert file.read(1_000) == bytes(1_000)


# Two processes


def answer(name: str, line: Connection) -> None:
    """Attach to the shared memory in another process and do as the parent's test says."""
    shared = SharedMemory(name)
    try:
        with new_dispose_scope():
            x = tensor.from_blob(shared.buf, (2, 4), "float32")
            line.send(x.tolist())
            line.recv()
            x[1] = x[0] * 10  # seen by the parent
            x.clone()[0] = 99.0  # not seen
            line.send("written")
            line.recv()
            line.send(x.tolist())
        shared.close()
        line.send("closed")
    except BaseException as error:
        line.send(repr(error))
        raise


def test_two_processes_see_each_others_writes_through_shared_memory() -> None:
    processes = multiprocessing.get_context("spawn")
    shared = SharedMemory(create=True, size=32)
    try:
        here, there = processes.Pipe()
        other = processes.Process(target=answer, args=(shared.name, there))
        with new_dispose_scope():
            x = tensor.from_blob(shared.buf, (2, 4), "float32")
            x[0] = tensor.tensor([1.0, 2.0, 3.0, 4.0])
            other.start()
            there.close()
            assert here.recv() == [[1.0, 2.0, 3.0, 4.0], [0.0] * 4]
            here.send("go")
            assert here.recv() == "written"
            assert x.tolist() == [[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]
            x.add_(1.0)
            here.send("go")
            assert here.recv() == [[2.0, 3.0, 4.0, 5.0], [11.0, 21.0, 31.0, 41.0]]
            assert here.recv() == "closed"
            other.join()
            assert other.exitcode == 0
        shared.close()
    finally:
        shared.unlink()


def test_the_example_of_shared_memory_runs_and_cleans_up_without_a_warning() -> None:
    root = Path(__file__).parents[2]
    program = [sys.executable, "-W", "error", "examples/share_memory.py"]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        program, cwd=root, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "1843200 of 1843200" in run.stdout
    assert "bytes shared: 307328  bytes copied to share them: 0" in run.stdout
    assert "bytes shared after the scope: 0" in run.stdout
    assert "0 tensors are left" in run.stdout
    assert "live_count: 0;" in run.stdout
