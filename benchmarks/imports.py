"""Import time in fresh interpreters: `scopes`, `tensor` and `nn` (NumPy included) against NumPy alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from tempfile import TemporaryDirectory

from benchmarks import ROOT
from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer

MODULES = {OURS: "scopes, tensor, nn", NUMPY: "numpy", TORCH: "torch"}
PROGRAM = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def cases() -> Iterator[Case]:
    """Yield one case, of one import a turn."""
    yield Case("imports/scopes, tensor, nn", _imports, rounds=12, repetitions=1)


def _imports(library: Library) -> Timer:
    timer = partial(_import_seconds, MODULES[library.name])
    timer(1)  # byte code and the disk's cache
    return timer


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
