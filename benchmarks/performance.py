"""Measure everything, and write the page on performance: `python -m benchmarks.performance`.

Each step is a separate run: contenders in one process, peaks of memory, the growth of costs, each contender
in its own process, ours on several Pythons, each instruction set. Then it writes tables and plots, which
``python -m benchmarks.document`` also does alone. With ``--levels`` it only measures the instruction sets and
the peaks of memory, and writes the summary and the tables of these.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import ROOT, document
from benchmarks.levels import LEVELS
from tensor.kernels.running import best_instruction_set

FOLDER = ROOT / "benchmarks" / "results" / "performance"
JUDGED = (
    "(ops|memory|kept|reductions|layers|products|training|convolutions|recurrent|attention|inference|optimizers"
    "|scopes)/"
)
# Cases for an instruction set. Those that it changes most are first, in case time runs out.
OF_LEVELS = {
    "rows": "(fresh|reductions)/",
    "networks": "(ops|layers|training|inference|convolutions|recurrent|attention|scopes)/",
    "elements": "(kept|memory|optimizers|products)/",
}
# In cases with these words ours does the same as in the cases without them.
TWICE = "(?!.*PyTorch (foreach|fused))"

# The number of new measurements of a case while other programs use the machine. After that it is left out.
AGAIN = 3


def main(arguments: list[str] | None = None) -> int:
    """Run all steps until one fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds, and no long cases")
    parser.add_argument(
        "--python", action="append", default=[], metavar="PATH", help="another interpreter to run ours on"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the JSON files go")
    parser.add_argument("--page", type=Path, default=document.PAGE, help="the page that is filled")
    parser.add_argument("--levels", action="store_true", help="only instruction sets and peaks of memory")
    parser.add_argument("--least", action="store_true", help="as for `python -m benchmarks`")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no step after this time")
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.minutes
    levels = LEVELS[: LEVELS.index(best_instruction_set()) + 1]
    pythons = [f"--python={python}" for python in (sys.executable, *options.python)]
    of_levels = {
        f"{level}.{part}": (pattern, ["--alone", f"--level={level}"])
        for part, pattern in OF_LEVELS.items()
        for level in reversed(levels)
    }
    whole: dict[str, tuple[str, list[str]]] = {
        "together": ("(?!scaling/|peaks/|fresh/)", []),
        "peaks": ("peaks/", []),
        "scaling": ("scaling/", []),
        "alone": (JUDGED, ["--alone"]),
        "pythons": (TWICE + JUDGED, pythons),
    }
    steps = {**of_levels, "peaks": whole["peaks"]} if options.levels else {**whole, **of_levels}
    quick = ["--quick"] * options.quick + ["--least"] * options.least
    for name, (pattern, flags) in steps.items():
        if time.monotonic() > end:
            print(f"no time for {name}", file=sys.stderr)
            continue
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", "benchmarks", *flags, *quick]
        command += [f"--only=^{pattern}", f"--json={options.folder / name}.json", f"--again={AGAIN}"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            return done.returncode
    only = ["--levels"] if options.levels else []
    return document.main([str(options.folder), f"--page={options.page}", *only])


if __name__ == "__main__":
    sys.exit(main())
