"""The results of a run: a table, and a JSON file for later comparisons."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.contenders import NUMPY, OURS, THREADS, TORCH
from benchmarks.harness import Result

HEADINGS = {OURS: "ours", NUMPY: "NumPy", TORCH: "PyTorch"}
CPU = Path("/proc/cpuinfo")


def print_table(results: Sequence[Result]) -> None:
    """Print medians and ratios; a ratio above 1 means that ours is faster, or takes less memory."""
    contenders = list(dict.fromkeys(name for result in results for name in result.summaries))
    others = [name for name in (TORCH, NUMPY) if name in contenders]
    table = Table(
        caption="Medians per repetition. A ratio above 1: ours is quicker, or takes less memory. "
        "A ratio in brackets: other processes used the CPU meanwhile, measure again."
    )
    table.add_column("case", no_wrap=True)
    headings = [HEADINGS.get(name, f"Python {name}") for name in contenders]
    headings += [f"{HEADINGS[name]} / ours" for name in others]
    for heading in (*headings, "ours: middle half"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            *(_median(result, contender) for contender in contenders),
            *(_ratio(result, other) for other in others),
            _middle_half(result),
        )
    # A fixed width, so that no column is cut off in a log.
    Console(width=150).print(table)


def write_json(
    results: Sequence[Result],
    path: Path,
    *,
    quick: bool,
    least: bool = False,
    alone: bool = False,
    level: str | None = None,
    pythons: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write versions, machine, date and every case's quartiles, in seconds per repetition, or in bytes."""
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "least": least,
        "alone": alone,
        "level": level,
        "machine": {
            "cpu": _cpu(),
            "cpu_count": os.cpu_count(),
            "architecture": platform.machine(),
            "system": platform.system(),
            "threads": THREADS,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("disposescope", "numpy", "torch")},
        },
        "pythons": pythons or {},
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


def _cpu() -> str:
    """Return the name of the CPU (Linux only)."""
    lines = CPU.read_text(encoding="utf-8").splitlines() if CPU.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _median(result: Result, contender: str) -> str:
    summary = result.summaries.get(contender)
    return figure(summary.median, result.unit) if summary else "-"


def _ratio(result: Result, contender: str) -> str:
    ratio = result.ratio(contender)
    if ratio is None:
        return "-"
    # Peaks of memory are exact, and may be close together.
    text = f"{ratio:.2f}" if result.unit == "seconds" else f"{ratio:.4f}"
    return f"({text})" if result.is_disturbed else text


def _middle_half(result: Result) -> str:
    ours = result.summaries.get(OURS)
    if ours is None or ours.rounds == 1:
        return "-"
    lower, upper = (figure(value, result.unit) for value in (ours.lower_quartile, ours.upper_quartile))
    return f"{lower} to {upper}"


def figure(value: float, unit: str) -> str:
    """Format a time or a size with three digits and a suitable unit."""
    return _duration(value) if unit.startswith("seconds") else f"{value / 2**20:.2f} MiB"


def _duration(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
