"""What a run leaves: a table to read and a JSON file to compare with."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.harness import NUMPY, OURS, TORCH, Result

CONTENDERS = (OURS, NUMPY, TORCH)


def print_table(results: Iterable[Result]) -> None:
    """Print medians and ratios; a ratio above 1 means that ours is quicker."""
    table = Table(
        caption="Medians per repetition. A ratio above 1: ours is quicker. "
        "A ratio in brackets: other processes used the CPU meanwhile, measure again."
    )
    table.add_column("case", no_wrap=True)
    for heading in ("ours", "NumPy", "PyTorch", "PyTorch / ours", "NumPy / ours", "ours: middle half"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            *(_median(result, contender) for contender in CONTENDERS),
            _ratio(result, TORCH),
            _ratio(result, NUMPY),
            _middle_half(result),
        )
    # A fixed width: cut columns in a log are worth nothing.
    Console(width=140).print(table)


def write_json(results: Iterable[Result], path: Path, *, quick: bool) -> None:
    """Write versions, machine, date and every case's quartiles, in seconds per repetition."""
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": {
            "cpu_count": os.cpu_count(),
            "architecture": platform.machine(),
            "system": platform.system(),
            "threads": torch.get_num_threads(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("disposescope", "numpy", "torch")},
        },
        "unit": "seconds per repetition",
        "cases": [
            {
                "name": result.name,
                "contenders": {name: asdict(summary) for name, summary in result.summaries.items()},
                "neighbours_cores": result.neighbours_cores,
                "disturbed": result.is_disturbed,
                "ratios": {f"{name}/{OURS}": result.ratio(name) for name in (TORCH, NUMPY)},
            }
            for result in results
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _median(result: Result, contender: str) -> str:
    summary = result.summaries.get(contender)
    return _duration(summary.median) if summary else "-"


def _ratio(result: Result, contender: str) -> str:
    ratio = result.ratio(contender)
    if ratio is None:
        return "-"
    return f"({ratio:.2f})" if result.is_disturbed else f"{ratio:.2f}"


def _middle_half(result: Result) -> str:
    ours = result.summaries.get(OURS)
    return f"{_duration(ours.lower_quartile)} to {_duration(ours.upper_quartile)}" if ours else "-"


def _duration(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
