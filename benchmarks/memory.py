"""What memory costs: results kept by name, clones, blobs and mapped files; ours inside a dispose scope."""

import atexit
import json
import operator
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tensor
from benchmarks.harness import NUMPY, OURS, TORCH, Case, Timer, timed
from scopes import new_dispose_scope

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
CLONED = 100_000_000  # float32: 400 MB
BORROWED = 200_000_000
LOADED = 2**28

OPS = ("add", "multiply", "maximum", "exp", "x * 2 + 1")


def cases() -> Iterator[Case]:
    """Yield elementwise ops whose results need fresh or reused memory, then what needs none."""
    for name in OPS:
        for size in SIZES:
            rounds = 12 if size == SIZES[-1] else 40
            yield Case(f"memory/{name} {size:,}", partial(_elementwise, name, size), rounds=rounds)
    yield Case("memory/clone 400 MB", _cloning, rounds=8)
    yield Case("memory/clone 400 MB, write to it", _cloning_and_writing, rounds=8)
    yield Case("memory/write, nobody shares", _writing, rounds=40)
    yield Case("memory/from_blob 800 MB", _borrowing, rounds=40)
    yield Case("memory/load_file 1 GiB", _loading, rounds=40)


def _elementwise(name: str, size: int) -> Mapping[str, Timer]:
    left = np.linspace(0, 1, size, dtype=np.float32)
    right = np.linspace(1, 2, size, dtype=np.float32)

    def loop(xp: Any, a: Any, b: Any, repetitions: int) -> None:
        op = _op(name, xp)
        # The result has a name, as in a user's program: it goes when the next one takes its name.
        for _ in range(repetitions):
            _result = op(a, b)

    our_left, our_right = tensor.tensor(left), tensor.tensor(right)
    return {
        OURS: timed(partial(_in_a_scope, partial(loop, tensor, our_left, our_right))),
        NUMPY: timed(partial(loop, np, left, right)),
        TORCH: timed(partial(loop, torch, torch.tensor(left), torch.tensor(right))),
    }


def _op(name: str, xp: Any) -> Callable[[Any, Any], Any]:
    """Return the op out of the namespace of a contender."""
    ops: dict[str, Callable[[Any, Any], Any]] = {
        "add": operator.add,
        "multiply": operator.mul,
        "maximum": xp.maximum,
        "exp": lambda x, _: xp.exp(x),
        "x * 2 + 1": lambda x, _: x * 2 + 1,
    }
    return ops[name]


def _in_a_scope(loop: Callable[[int], None], repetitions: int) -> None:
    with new_dispose_scope():
        loop(repetitions)


def _times_of(step: Callable[[], object]) -> Timer:
    """Make a timer that lets each result go outside of the time taken."""

    def run(repetitions: int) -> float:
        seconds = 0.0
        for _ in range(repetitions):
            start = time.perf_counter()
            result = step()
            seconds += time.perf_counter() - start
            del result
        return seconds

    return run


def _cloning() -> Mapping[str, Timer]:
    # Ones: pages of zeros that were never written to would cost the others nothing to read.
    ours, array, theirs = _ones(CLONED)
    return {OURS: _times_of(ours.clone), NUMPY: _times_of(array.copy), TORCH: _times_of(theirs.clone)}


def _cloning_and_writing() -> Mapping[str, Timer]:
    ours, array, theirs = _ones(CLONED)

    def written(copied: Callable[[], Any]) -> Any:
        clone = copied()
        clone[0] = 2.0
        return clone

    return {
        OURS: _times_of(partial(written, ours.clone)),
        NUMPY: _times_of(partial(written, array.copy)),
        TORCH: _times_of(partial(written, theirs.clone)),
    }


def _writing() -> Mapping[str, Timer]:
    ours, array, theirs = _ones(1)

    def write(target: Any, repetitions: int) -> None:
        for _ in range(repetitions):
            target[0] = 2.0

    return {
        OURS: timed(partial(write, ours)),
        NUMPY: timed(partial(write, array)),
        TORCH: timed(partial(write, theirs)),
    }


def _ones(size: int) -> tuple[tensor.Tensor, np.ndarray[Any, Any], torch.Tensor]:
    return tensor.ones((size,)), np.ones(size, np.float32), torch.ones(size)


def _borrowing() -> Mapping[str, Timer]:
    source = bytearray(4 * BORROWED)

    def loop(borrow: Callable[[], object], repetitions: int) -> None:
        for _ in range(repetitions):
            _result = borrow()

    ours = partial(loop, partial(tensor.from_blob, source, (BORROWED,), "float32"))
    return {
        OURS: timed(partial(_in_a_scope, ours)),
        NUMPY: timed(partial(loop, partial(np.frombuffer, source, np.float32))),
        TORCH: timed(partial(loop, partial(torch.frombuffer, source, dtype=torch.float32))),
    }


def _loading() -> Mapping[str, Timer]:
    """Time our load_file; NumPy and PyTorch map as many bytes that have no header to be read and checked."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    raw, file = folder / "raw", folder / "x.safetensors"
    nbytes = 4 * LOADED
    header = json.dumps({"x": {"dtype": "F32", "shape": [LOADED], "data_offsets": [0, nbytes]}}).encode()
    # Sparse: nobody reads what is in them.
    for path, start in ((raw, b""), (file, len(header).to_bytes(8, "little") + header)):
        with path.open("wb") as opened:
            opened.write(start)
            opened.truncate(len(start) + nbytes)

    def loop(load: Callable[[], object], repetitions: int) -> None:
        for _ in range(repetitions):
            _result = load()

    return {
        OURS: timed(partial(_in_a_scope, partial(loop, partial(tensor.load_file, file)))),
        NUMPY: timed(partial(loop, partial(np.memmap, raw, np.float32, "r"))),
        TORCH: timed(partial(loop, partial(torch.from_file, str(raw), size=LOADED, dtype=torch.float32))),
    }
