"""Run the benchmarks: `python -m benchmarks [--quick] [--only PATTERN] [--json PATH]`."""

import argparse
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks import imports, lifetimes, memory, ops, peaks, tracking, training
from benchmarks.harness import measure
from benchmarks.report import print_table, write_json

FAMILIES = (ops, memory, lifetimes, tracking, training, peaks, imports)
RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases asked for, print the table and write the JSON file."""
    options = _parse(arguments)
    torch.set_num_threads(2)
    pattern = re.compile(options.only)
    chosen = [case for family in FAMILIES for case in family.cases() if pattern.search(case.name)]
    if not chosen:
        names = "\n  ".join(case.name for family in FAMILIES for case in family.cases())
        print(f"no case matches {options.only!r}; there are\n  {names}", file=sys.stderr)
        return 2
    results = []
    for number, case in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {case.name}", file=sys.stderr, flush=True)
        results.append(measure(case, quick=options.quick))
    print_table(results)
    write_json(results, options.json, quick=options.quick)
    print(f"written to {options.json}")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds")
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="only cases that this expression matches"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json",
        metavar="PATH",
        help="where the figures go (default: a dated file in benchmarks/results)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
