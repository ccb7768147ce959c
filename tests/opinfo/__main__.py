"""``make opinfo``: run PyTorch's data bases against `tensor.torch`, and write docs/opinfo.md."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from tests.opinfo.document import written
from tests.opinfo.modules import run_module
from tests.opinfo.ops import run_op
from tests.opinfo.optimizers import run_optimizer
from tests.opinfo.results import Counts

BASES = {"op": (run_op, op_db), "module": (run_module, module_db), "optim": (run_optimizer, optim_db)}
# At most so many samples of an op, for each dtype and form: some ops have thousands.
LIMIT = 10
PAGE = Path("docs/opinfo.md")


def run(place: tuple[str, int]) -> tuple[str, Counts]:
    """Return what one entry gave; the run of a process of its own."""
    base, i = place
    torch.set_num_threads(1)
    function, entries = BASES[base]
    return base, function(entries[i])


def main() -> int:
    """Run what the arguments ask for; return 1 when the results are not what the page promises."""
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of ops, modules and optimizers; writes no page")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    places = [
        (base, i)
        for base, (_, entries) in BASES.items()
        for i, entry in enumerate(entries)
        if not given.only or getattr(entry, "name", entry.__class__.__name__) in given.only
    ]
    with get_context("fork").Pool(given.processes) as pool:
        results = list(pool.imap(run, places, chunksize=4))
    total: Counter[str] = Counter()
    for base, counts in results:
        total.update({f"{base}_db: {outcome}": n for outcome, n in counts.outcomes.items()})
        print(*counts.lines, sep="\n", end="\n" if counts.lines else "")
    for outcome in sorted(total):
        print(f"{outcome}: {total[outcome]}")
    if not given.only:
        PAGE.write_text(written(results, LIMIT), encoding="utf-8")
        print(f"== Wrote {PAGE}")
    wrong = sum(n for outcome, n in total.items() if outcome.endswith((" different", " bare")))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
