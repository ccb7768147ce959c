"""Run the benchmarks and print a table: `make bench`, or `python -m benchmarks` from the root."""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import ROOT
from benchmarks.catalogue import all_cases
from benchmarks.contenders import NUMPY, OURS, TORCH, MissingContenderError, library
from benchmarks.harness import Case, Manner, Result
from benchmarks.levels import LEVELS, VARIABLE, environment
from benchmarks.report import print_table, write_json
from benchmarks.running import announced, run_alone, run_on_pythons, run_together


def main(arguments: list[str] | None = None) -> int:
    """Measure the selected cases, print the table and write the JSON file."""
    options = _parse(arguments)
    if options.level is not None and os.environ.get(VARIABLE) != options.level:
        # Libraries select their kernels when they are loaded, so run everything in a new process.
        command = [sys.executable, "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)]
        own = {**os.environ, **environment(options.level)}
        return subprocess.run(command, cwd=ROOT, env=own, check=False).returncode
    try:
        cases = _chosen(options)
    except (ValueError, MissingContenderError) as error:
        print(error, file=sys.stderr)
        return 2
    pythons: dict[str, dict[str, str]] = {}
    found: dict[str, Result] = {}
    for again in range(options.again + 1):
        if again:
            print(f"{len(cases)} cases again: others used the machine", file=sys.stderr)
        found |= {result.name: result for result in _measured(cases, options, pythons)}
        cases = [case for case in cases if found[case.name].is_disturbed]
        if not cases:
            break
    results = list(found.values())
    print_table(results)
    write_json(
        results,
        options.json,
        quick=options.quick,
        least=options.least,
        alone=options.alone,
        level=options.level,
        pythons=pythons,
    )
    print(f"written to {options.json}")
    return 0


def _measured(
    cases: list[Case], options: argparse.Namespace, pythons: dict[str, dict[str, str]]
) -> list[Result]:
    """Measure the cases by the options, and note in `pythons` the versions of each interpreter."""
    manner = Manner(options.quick, options.least)
    if options.python:
        results, versions = run_on_pythons(announced(cases), options.python, manner)
        pythons.update(versions)
        return results
    run = run_alone if options.alone else run_together
    return list(run(announced(cases), manner))


def _chosen(options: argparse.Namespace) -> list[Case]:
    """Return the cases of this run, with the contenders that take part."""
    pattern = re.compile(options.only)
    only_ours = options.only_ours or bool(options.python)
    in_processes = options.alone or bool(options.python)
    chosen = [
        _with_contenders(case, only_ours=only_ours, is_at_level=options.level is not None)
        for case in all_cases()
        if pattern.search(case.name)
        and not (options.quick and case.is_long)
        # Bytes are always measured in separate processes.
        and not (in_processes and case.unit != "seconds")
        and not (options.alone and case.contenders == (OURS,))
    ]
    if not chosen:
        names = "\n  ".join(case.name for case in all_cases())
        raise ValueError(f"no case matches {options.only!r}; there are\n  {names}")
    if any(TORCH in case.contenders for case in chosen):
        library(TORCH)  # raises immediately if it is missing
    return chosen


def _with_contenders(case: Case, *, only_ours: bool, is_at_level: bool) -> Case:
    """Return the case with its contenders in this run: at an instruction set, ours and PyTorch."""
    if only_ours:
        return replace(case, contenders=(OURS,))
    if is_at_level:
        return replace(case, contenders=tuple(who for who in case.contenders if who != NUMPY))
    return case


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds, and no long cases")
    parser.add_argument(
        "--least",
        action="store_true",
        help="the least of many short rounds counts: others use the machine too",
    )
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="only cases that this expression matches"
    )
    parser.add_argument(
        "--again",
        type=int,
        default=0,
        metavar="TIMES",
        help="how often cases are measured again while others use the machine",
    )
    parser.add_argument("--only-ours", action="store_true", help="without plain NumPy and PyTorch")
    parser.add_argument(
        "--alone", action="store_true", help="each contender in a process of its own, taking turns"
    )
    parser.add_argument(
        "--level", choices=LEVELS, help="hold all contenders to this instruction set (default: the best)"
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="ours on this interpreter; give it several times, and they take turns",
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / "benchmarks" / "results" / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json",
        metavar="PATH",
        help="where the figures go (default: a dated file in benchmarks/results)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
