"""What PyTorch programs hold by accident, and the memory of the process before, with and after it.

``python -m tests.torch_memory exception --scoped`` runs one case in this process and prints, as JSON, the
bytes of the process before the case, and after it, while what holds the tensors is alive; and who still holds
what a scope could not give back. Without arguments: a table of all cases, each in processes of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

import scopes.torch
from scopes import new_dispose_scope

# Floats of one tensor: 76 MiB, which the C library gives back to the system as soon as it is freed.
SIZE = 20_000_000
HELD: list[Any] = []


def fail(size: int) -> None:
    x = torch.ones(size)
    raise ValueError(f"no {x.shape[0]}")


def exception(size: int) -> None:
    try:
        fail(size)
    except ValueError as error:
        HELD.append(error)


class Cycle:
    def __init__(self, size: int) -> None:
        self.itself = self
        self.x = torch.ones(size)


def cycle(size: int) -> None:
    Cycle(size)  # the collector is off


def notebook(size: int) -> None:
    HELD.extend(torch.full((size,), float(cell)) for cell in range(3))


def view(size: int) -> None:
    HELD.append(torch.ones(size)[:10])


def forward(size: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(10, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))
    HELD.extend(model(torch.ones(size // 200, 10)) for _ in range(2))


class Rows(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.full((self.size // 4,), float(index))


def workers(size: int) -> None:
    for batch in torch.utils.data.DataLoader(Rows(size), batch_size=4, num_workers=2):
        batch.add_(1)
        HELD.append(batch)


def export(size: int) -> None:
    x = torch.ones(size)
    HELD.extend((x, x.numpy()))


CASES: dict[str, Callable[[int], None]] = {
    "exception": exception,
    "cycle": cycle,
    "notebook": notebook,
    "view": view,
    "forward": forward,
    "workers": workers,
    "export": export,
}


def resident() -> int:
    """Return the bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(name: str, *, scoped: bool) -> dict[str, Any]:
    """Run one case in this process."""
    torch.set_num_threads(1)
    case = CASES[name]
    with scopes.torch.owning(), new_dispose_scope():
        case(10_000)  # what PyTorch makes once
    HELD.clear()
    gc.collect()
    gc.disable()
    scopes.torch.still_held()  # loads its module, and trims the heap, as below
    before = resident()
    with scopes.track() if scoped else nullcontext():
        with scopes.torch.owning() if scoped else nullcontext(), new_dispose_scope("step"):
            case(SIZE)
        report = scopes.torch.still_held()
        held = [(row.nbytes, row.by, row.site.text) for row in report.rows]
    return {"before": before, "after": resident(), "held": held}


def measure_apart(name: str, *, scoped: bool) -> dict[str, Any]:
    """Run one case in a process of its own."""
    command = [sys.executable, "-m", "tests.torch_memory", name, *(["--scoped"] if scoped else [])]
    root = Path(__file__).parents[1]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=600)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="?", choices=CASES)
    parser.add_argument("--scoped", action="store_true")
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(options.case, scoped=options.scoped)))
        return
    print(f"{'MiB':12}{'before':>8}{'held without scopes':>22}{'held with':>12}  by")
    for name in CASES:
        plain, scoped = measure_apart(name, scoped=False), measure_apart(name, scoped=True)
        without, with_scopes = ((it["after"] - it["before"]) / 2**20 for it in (plain, scoped))
        by = ", ".join(row[1] for row in scoped["held"])
        print(f"{name:12}{plain['before'] / 2**20:8.0f}{without:22.1f}{with_scopes:12.1f}  {by}")


if __name__ == "__main__":
    main()
