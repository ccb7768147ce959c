"""Run the programs on PyTorch and on `tensor.torch`, compare their losses, and count the names that they use.

    make programs EXAMPLES=folder MINGPT=folder ONLY='mnist vae'

The folders are checkouts of github.com/pytorch/examples and github.com/karpathy/minGPT. Writes tables in
Markdown, and ends with status 1 if fewer programs than there should be give PyTorch's losses to five digits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tests.programs.names import report_on_names
from tests.programs.rewriting import copy_programs
from tests.programs.table import MINGPT, NEEDED, NOT_RUN, PROGRAMS, Program

STAND_INS = Path(__file__).with_name("stand_ins")
# A relative difference up to which losses are the same to five digits.
SAME = 1e-5
# By how much weights are changed, to see how far PyTorch's own losses hang on rounding.
CHANGE = 1e-7
_START = (
    "import runpy, sys; import same_start; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


class Run(NamedTuple):
    """What a program has done: its losses, and the last lines of an error."""

    losses: list[float]
    error: str


def run(program: Program, folder: Path, changed: float = 0.0) -> Run:
    """Run a copy of a program in a process of its own, on one thread."""
    home = folder / program.source
    place = home / program.folder
    result = folder / "losses.json"
    result.unlink(missing_ok=True)
    script = place / program.script
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (folder / "stand_ins", script.parent, place, Path.cwd()))),
        "OMP_NUM_THREADS": "1",
        "PROGRAM_RESULT": str(result),
        "PROGRAM_LIMIT": str(program.limit),
        "PROGRAM_FOLDER": str(home),
        "PROGRAM_CHANGED": str(changed),
    }
    command = [sys.executable, "-c", _START, str(script), *program.options.split()]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    losses = json.loads(result.read_text(encoding="utf-8")) if result.exists() else []
    return Run(losses, " / ".join(done.stderr.strip().split("\n")[-2:]) if done.returncode else "")


def differences(ours: list[float], theirs: list[float]) -> list[float]:
    return [
        abs(one - other) / max(abs(other), 1e-30) if one != other else 0.0
        for one, other in zip(ours, theirs, strict=False)
    ]


def share(found: list[float], count: int) -> str:
    return f"{sum(x <= SAME for x in found)} of {count}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs")
    parser.add_argument(
        "--examples", type=Path, required=True, help="a checkout of github.com/pytorch/examples"
    )
    parser.add_argument("--mingpt", type=Path, required=True, help="a checkout of github.com/karpathy/minGPT")
    parser.add_argument("--only", nargs="*", help="programs that begin with one of these names")
    given = parser.parse_args()
    chosen = {
        name: program
        for name, program in PROGRAMS.items()
        if not given.only or any(name.startswith(each) for each in given.only)
    }
    equal: dict[str, bool] = {}
    python = sys.version.partition(" ")[0]
    print(f"{date.today()}: PyTorch {version('torch')}, NumPy {version('numpy')}, Python {python}\n")
    print("| program | losses equal | largest difference | PyTorch against itself |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        for place in (ours, theirs):
            copy_programs(place, given.examples, given.mingpt, STAND_INS, is_ours=place is ours)
        for name, program in chosen.items():
            expected, found = run(program, theirs), run(program, ours)
            again = run(program, theirs, CHANGE)
            apart = differences(found.losses, expected.losses)
            count = max(len(expected.losses), len(found.losses))
            is_equal = not found.error and not expected.error and 0 < count == sum(x <= SAME for x in apart)
            key = MINGPT if program.source == MINGPT else name.partition(" (")[0]
            equal[key] = equal.get(key, True) and is_equal
            rounding = share(differences(again.losses, expected.losses), count)
            print(
                f"| {name} | {share(apart, count)} | {max(apart, default=0):.1e} | {rounding} |", flush=True
            )
            for what, error in (("PyTorch", expected.error), ("tensor.torch", found.error)):
                if error:
                    print(f"  {what}: {error}", file=sys.stderr, flush=True)
    print("\nNot run:\n")
    for name, why in NOT_RUN.items():
        print(f"- {name}: {why}")
    examples = [name for name, same in equal.items() if same and name != MINGPT]
    print(f"\nAll losses equal: {len(examples)} official examples ({', '.join(examples)})", end="")
    print(", and minGPT" if equal.get(MINGPT) else "")
    names_are_there = report_on_names(given.examples, given.mingpt)
    if given.only:
        return not all(equal.values())
    return not (len(examples) >= NEEDED and equal.get(MINGPT) and names_are_there)


if __name__ == "__main__":
    sys.exit(main())
