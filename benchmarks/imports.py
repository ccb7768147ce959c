"""Import time in fresh interpreters: `scopes`, `tensor` and `nn` (NumPy included) against NumPy alone."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import NUMPY, OURS, TORCH, Case, Timer

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def cases() -> Iterator[Case]:
    """Yield one case, of one import a turn."""
    yield Case("imports/scopes, tensor, nn", _imports, rounds=12, repetitions=1)


def _imports() -> Mapping[str, Timer]:
    timers: dict[str, Timer] = {
        OURS: partial(_import_seconds, "scopes, tensor, nn"),
        NUMPY: partial(_import_seconds, "numpy"),
        TORCH: partial(_import_seconds, "torch"),
    }
    for timer in timers.values():
        timer(1)  # byte code and the disk's cache
    return timers


@cache
def _byte_code() -> TemporaryDirectory[str]:
    """Return where all keep byte code: an installed package has it, a checkout may not be allowed to."""
    return TemporaryDirectory()


def _import_seconds(modules: str, repetitions: int) -> float:
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": _byte_code().name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROGRAM.format(modules)]
    seconds = 0.0
    for _ in range(repetitions):
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        seconds += float(done.stdout)
    return seconds
