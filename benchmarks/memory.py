"""The cost of memory: results in variables, clones, blobs and mapped files; ours inside a dispose scope."""

import atexit
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer, in_scope, repeated

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
CLONED = 100_000_000  # float32: 400 MB
BORROWED = 200_000_000
LOADED = 2**26

OPS = ("add", "multiply", "divide", "maximum", "sqrt", "exp", "tanh", "x * 2 + 1")


def cases() -> Iterator[Case]:
    """Yield elementwise ops whose results need fresh or reused memory, then operations without new memory."""
    for name in OPS:
        for size in SIZES:
            rounds = 12 if size == SIZES[-1] else 24
            yield Case(
                f"memory/{name} {size:,}",
                partial(_elementwise, name, size),
                check=partial(_second_result, name, size),
                rounds=rounds,
                round_seconds=0.02,
            )
    yield Case("memory/clone 400 MB", _cloning, rounds=8)
    yield Case("memory/clone 400 MB, write to it", _cloning_and_writing, rounds=8)
    yield Case("memory/write, nobody shares", _writing)
    yield Case("memory/from_blob 800 MB", _borrowing)
    yield Case("memory/load_file 256 MiB", partial(_loading, is_read=False))
    yield Case("memory/load_file 256 MiB, and its sum", partial(_loading, is_read=True), rounds=12)


def _elementwise(name: str, size: int, library: Library) -> Timer:
    return in_scope(library, repeated(step_of(name, size, library)))


def _second_result(name: str, size: int, library: Library) -> Sequence[float]:
    """Return some elements of the second result: they show whether an op overwrites its operand."""
    step = step_of(name, size, library)
    with library.scope():
        step()
        result = step()
        return [float(result[i].item()) for i in (1, size // 2, size - 1)]


def step_of(name: str, size: int, library: Library) -> Callable[[], Any]:
    """Return an op on two arrays of `size` elements."""
    a = library.array(np.linspace(0, 1, size, dtype=np.float32))
    b = library.array(np.linspace(1, 2, size, dtype=np.float32))
    return partial(_op(name, library.xp), a, b)


def _op(name: str, xp: Any) -> Callable[[Any, Any], Any]:
    """Return the op from the namespace of a contender."""
    # Functions in Python, because in calls from C code NumPy may take an operand for a temporary array, and
    # write the result over it.
    ops: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda x, y: x + y,
        "multiply": lambda x, y: x * y,
        "divide": lambda x, y: x / y,
        "maximum": xp.maximum,
        "x * 2 + 1": lambda x, _: x * 2 + 1,
    }
    return ops.get(name) or (lambda x, _: getattr(xp, name)(x))


def _times_of(step: Callable[[], object]) -> Timer:
    """Create a timer that frees each result outside of the measured time."""

    def run(repetitions: int) -> float:
        seconds = 0.0
        for _ in range(repetitions):
            start = time.perf_counter()
            result = step()
            seconds += time.perf_counter() - start
            del result
        return seconds

    return run


def _clone_of_ones(library: Library) -> Callable[[], Any]:
    # Use ones, because reading zero pages that were never written costs the other contenders nothing.
    ones = library.array(np.ones(CLONED, np.float32))
    clone: Callable[[], Any] = ones.copy if library.name == NUMPY else ones.clone
    return clone


def _cloning(library: Library) -> Timer:
    return _times_of(_clone_of_ones(library))


def _cloning_and_writing(library: Library) -> Timer:
    copied = _clone_of_ones(library)

    def written() -> Any:
        clone = copied()
        clone[0] = 2.0
        return clone

    return _times_of(written)


def _writing(library: Library) -> Timer:
    target = library.array(np.ones(1, np.float32))

    def write(repetitions: int) -> None:
        for _ in range(repetitions):
            target[0] = 2.0

    return in_scope(library, write)


def _borrowing(library: Library) -> Timer:
    source = bytearray(4 * BORROWED)
    borrow: dict[str, Callable[[], object]] = {
        OURS: lambda: library.xp.from_blob(source, (BORROWED,), "float32"),
        NUMPY: lambda: np.frombuffer(source, np.float32),
        TORCH: lambda: library.xp.frombuffer(source, dtype=library.xp.float32),
    }
    return in_scope(library, repeated(borrow[library.name]))


def _loading(library: Library, *, is_read: bool) -> Timer:
    """Time the mapping of a file in the contender's format. With `is_read`, also sum all numbers."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    xp, ones = library.xp, np.ones(LOADED, np.float32)
    path = folder / {OURS: "x.safetensors", NUMPY: "x.npy", TORCH: "x.pt"}[library.name]
    save: dict[str, Callable[[], object]] = {
        OURS: lambda: xp.save_file({"x": ones}, path),
        NUMPY: lambda: np.save(path, ones),
        TORCH: lambda: xp.save({"x": library.array(ones)}, path),
    }
    save[library.name]()
    load: dict[str, Callable[[], Any]] = {
        OURS: lambda: xp.load_file(path)["x"],
        NUMPY: lambda: np.load(path, mmap_mode="r"),
        TORCH: lambda: xp.load(path, mmap=True)["x"],
    }
    loaded = load[library.name]
    return in_scope(library, repeated((lambda: loaded().sum()) if is_read else loaded))
