"""Import time in new interpreters: `tensor`, and all three packages, NumPy included, against NumPy alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from tempfile import TemporaryDirectory

from benchmarks import ROOT
from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer

OTHERS = {NUMPY: "numpy", TORCH: "torch"}
PROGRAM = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def cases() -> Iterator[Case]:
    """Yield a case for each import, one a turn."""
    for modules in ("tensor", "scopes, tensor, nn"):
        yield Case(f"imports/{modules}", partial(_imports, modules), rounds=12, repetitions=1)


def _imports(modules: str, library: Library) -> Timer:
    timer = partial(_import_seconds, {OURS: modules, **OTHERS}[library.name])
    timer(1)  # so that byte code and the disk's cache exist
    return timer


@cache
def _byte_code() -> TemporaryDirectory[str]:
    """Return a folder for byte code: installed packages have it, but a checkout may be read-only."""
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
