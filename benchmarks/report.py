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
    """Print medians and ratios; a ratio above 1 means that ours is quicker, or takes less memory."""
    table = Table(
        caption="Medians per repetition. A ratio above 1: ours is quicker, or takes less memory. "
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
    """Write versions, machine, date and every case's quartiles, in seconds per repetition, or in bytes."""
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
        "cases": [
            {
                "name": result.name,
                "unit": "bytes" if result.unit == "bytes" else "seconds per repetition",
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
    return _figure(result, summary.median) if summary else "-"


def _ratio(result: Result, contender: str) -> str:
    ratio = result.ratio(contender)
    if ratio is None:
        return "-"
    # Peaks of memory are exact, and may lie close together.
    text = f"{ratio:.2f}" if result.unit == "seconds" else f"{ratio:.4f}"
    return f"({text})" if result.is_disturbed else text


def _middle_half(result: Result) -> str:
    ours = result.summaries.get(OURS)
    if ours is None or ours.rounds == 1:
        return "-"
    return f"{_figure(result, ours.lower_quartile)} to {_figure(result, ours.upper_quartile)}"


def _figure(result: Result, value: float) -> str:
    return _duration(value) if result.unit == "seconds" else f"{value / 2**20:.2f} MiB"


def _duration(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
