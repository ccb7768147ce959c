"""Measure everything, and make the page on performance of it: `python -m benchmarks.performance`.

Steps, each a run of its own: contenders in one process, peaks of memory, how costs grow, each contender in a
process of its own, ours on several Pythons, each instruction set, then tables and plots, which
``python -m benchmarks.document`` makes alone. With ``--levels`` it only measures the instruction sets and the
peaks of memory, and writes the summary and the tables of these.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import ROOT, document
from benchmarks.levels import LEVELS
from tensor.kernels.simd import best_instruction_set

FOLDER = ROOT / "benchmarks" / "results" / "performance"
JUDGED = (
    "(ops|memory|kept|reductions|layers|products|training|convolutions|recurrent|attention|inference|optimizers"
    "|scopes)/"
)
# Of an instruction set, in this order: what it changes most comes first, for when time is short.
OF_LEVELS = {
    "rows": "(fresh|reductions)/",
    "networks": "(ops|layers|training|inference|convolutions|recurrent|attention|scopes)/",
    "elements": "(kept|memory|optimizers|products)/",
}
# Ours does the same in these as in the cases without the words.
TWICE = "(?!.*PyTorch (foreach|fused))"

# What was measured while others used the machine is measured so often once more, and left out after that.
AGAIN = 3


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; the first one that fails ends them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds, and no long cases")
    parser.add_argument(
        "--python", action="append", default=[], metavar="PATH", help="another interpreter to run ours on"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the JSON files go")
    parser.add_argument("--page", type=Path, default=document.PAGE, help="the page that is filled")
    parser.add_argument("--levels", action="store_true", help="only instruction sets and peaks of memory")
    parser.add_argument("--least", action="store_true", help="as for `python -m benchmarks`")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no step after so many")
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
