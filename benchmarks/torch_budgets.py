"""PyTorch's training steps under ``scopes.torch.budget`` on the CPU: peak of the process, and time.

``python -m benchmarks.torch_budgets FOLDER`` prints a table; the file is in FOLDER. Each row is a separate
process with one thread. The peak is the high-water mark (``VmHWM``, Linux only) above the state before the
first step. The time is processor time, the least of some steps, which other programs disturb little.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ROOT, attention
from benchmarks.contenders import TORCH, library
from benchmarks.plans import Step, resnet_step
from scopes.lowlevel import format_bytes

STEPS = 3
PARTS = (0.75, 0.5, 0.25, 0.0)
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
GPT = attention.Sizes(layers=6, heads=6, width=384, length=128, batch=16)
NETWORKS: dict[str, Callable[[], Step]] = {
    "ResNet-18, 32 images of 128 x 128": lambda: resnet_step(library(TORCH), 32, 128),
    f"minGPT {GPT}": partial(lambda: attention.training_step(library(TORCH), GPT, False, 1e-4)),
}


def _status(name: str) -> int:
    """Return a figure of this process in bytes: ``VmRSS`` or ``VmHWM``."""
    (line,) = (
        line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) * 1024


def print_run(name: str, folder: str, size: int | None) -> None:
    """Train a network under a budget, and print its figures. It runs in a separate process."""
    import torch

    import scopes.torch

    torch.manual_seed(0)
    made = NETWORKS[name]()
    torch.set_num_threads(1)
    held = None if size is None else scopes.torch.budget(size, spill=folder)
    block: AbstractContextManager[Any] = nullcontext() if held is None else held
    seconds, losses = [], []
    before = _status("VmRSS")
    CLEAR.write_text("5", encoding="utf-8")  # reset the high-water mark
    for _ in range(STEPS):
        start = time.process_time()
        with block:
            losses.append(made())
        seconds.append(time.process_time() - start)
    figures = None if held is None else held.statistics()
    print(
        json.dumps(
            {
                "peak": _status("VmHWM") - before,
                "seconds": min(seconds),
                "losses": losses,
                "saved": 0 if figures is None else figures.peak_bytes,
                "spilled": 0 if figures is None else figures.spilled_bytes // STEPS,
            }
        )
    )


def _run(name: str, folder: str, size: int | None) -> dict[str, Any]:
    program = f"from benchmarks import torch_budgets; torch_budgets.print_run({name!r}, {folder!r}, {size!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the table."""
    if len(sys.argv) != 2:
        raise SystemExit("python -m benchmarks.torch_budgets FOLDER, which is on a disk with some free GB")
    folder = str(Path(sys.argv[1]).resolve())
    print("| step | budget | peak above the start | of plain | s | time / plain | written, a step |")
    print("|---|" + "---:|" * 6)
    for name in NETWORKS:
        plain = _run(name, folder, None)
        saved = _run(name, folder, 2**50)["saved"]
        for part in (None, 1.0, *PARTS):
            size = None if part is None else int(part * saved)
            found = plain if size is None else _run(name, folder, size)
            assert found["losses"] == plain["losses"]
            row = (
                name,
                "none" if size is None else format_bytes(size),
                format_bytes(found["peak"]),
                f"{found['peak'] / plain['peak']:.2f}",
                f"{found['seconds']:.2f}",
                f"{found['seconds'] / plain['seconds']:.2f}",
                format_bytes(found["spilled"]),
            )
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
