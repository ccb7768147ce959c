"""What the library sets out to be, and what the runs say to that: judged by the worst case."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.contenders import NUMPY, OURS, TORCH
from benchmarks.results import Runs

GOALS = (
    ("op on one element in a scope", r"ops/(add|multiply by a number) 1$", TORCH, 1.2),
    ("the same, recorded for backward", r"ops/(add|multiply by a number) 1, recorded$", TORCH, 1.0),
    ("elementwise op, result kept, 1,000,000", r"memory/.* 1,000,000$", TORCH, 1.5),
    ("elementwise op, result kept, 1,000,000", r"memory/.* 1,000,000$", NUMPY, 2.5),
    ("elementwise op, result kept, 10,000,000", r"memory/.* 10,000,000$", TORCH, 1.5),
    ("elementwise op, result kept, 10,000,000", r"memory/.* 10,000,000$", NUMPY, 1.7),
    ("elementwise op, result kept, 100,000", r"memory/.* 100,000$", NUMPY, 1.0),
    ("elementwise op, a step's results kept, 100,000", r"kept/.* 100,000$", NUMPY, 1.0),
    ("elementwise op, a step's results kept, 1,000,000", r"kept/.* 1,000,000$", NUMPY, 2.5),
    ("training step, 64-128-10", r"training/64-128-10 ", TORCH, 1.4),
    ("training step, 4-8096-4", r"training/4-8096-4 ", TORCH, 1.0),
    ("training step, 784-512-256-10", r"training/784-512-256-10 ", TORCH, 1.1),
    ("training step, 784-2048-2048-10", r"training/784-2048-2048-10 ", TORCH, 1.0),
    ("inference, 64-128-10", r"inference/64-128-10 ", TORCH, 1.2),
    ("inference, 4-8096-4", r"inference/4-8096-4 ", TORCH, 1.0),
    ("inference, 784-512-256-10", r"inference/784-512-256-10 ", TORCH, 1.1),
    ("inference, 784-2048-2048-10", r"inference/784-2048-2048-10 ", TORCH, 1.0),
    ("peak memory of the process, above that after the imports", r"peaks/process:", TORCH, 1.0),
    ("the same, above that after a tiny network", r"peaks/process, tiny before:", TORCH, 1.0),
)
"""What is done, the cases, against whom, and how much better ours shall be at least, in time or memory."""

EMPTY_SCOPE = "scopes/empty"
EMPTY_SCOPE_SECONDS = 1e-6
DISPOSAL = "scaling/dispose, tensors in a scope: "
# Costs per tensor, the most over the least: memory that no cache holds is slower for everybody.
LINEAR = 2.0
BEHIND_THE_BEST = 1.25


@dataclass(frozen=True)
class Verdict:
    """A goal, what was asked, what came out, the case that it came out of, and whether it holds."""

    goal: str
    asked: str
    found: str
    case: str
    holds: bool


def verdicts(runs: Runs) -> Iterator[Verdict]:
    """Judge each goal of which there are figures."""
    for goal, pattern, other, least in GOALS:
        ratios = {
            name: ratio
            for name in {**runs.together.cases, **runs.alone.cases}
            if re.match(pattern, name) and (ratio := runs.judged(name, other)) is not None
        }
        if ratios:
            worst = min(ratios, key=ratios.__getitem__)
            against = "NumPy" if other == NUMPY else "PyTorch"
            asked = f"{against} / ours >= {least}"
            yield Verdict(goal, asked, f"{ratios[worst]:.2f}", worst, ratios[worst] >= least)
    yield from _of_lifetimes(runs)
    yield from _of_pythons(runs)


def _of_lifetimes(runs: Runs) -> Iterator[Verdict]:
    cases = runs.together.cases
    if EMPTY_SCOPE in cases:
        seconds = cases[EMPTY_SCOPE].medians[OURS]
        holds = seconds < EMPTY_SCOPE_SECONDS
        yield Verdict("a scope with nothing in it", "< 1 us", f"{seconds * 1e6:.2f} us", EMPTY_SCOPE, holds)
    disposals = {name: case.medians[OURS] for name, case in cases.items() if name.startswith(DISPOSAL)}
    if disposals:
        most = max(disposals, key=disposals.__getitem__)
        ratio = disposals[most] / min(disposals.values())
        asked = f"costs per tensor within {LINEAR:.0f} times"
        yield Verdict("disposal is linear", asked, f"{ratio:.2f}", most, ratio <= LINEAR)


def _of_pythons(runs: Runs) -> Iterator[Verdict]:
    behind = {name: case.spread for name, case in runs.pythons.cases.items()}
    if behind:
        worst = max(behind, key=behind.__getitem__)
        holds = behind[worst] <= BEHIND_THE_BEST
        asked = f"worst / best <= {BEHIND_THE_BEST}"
        yield Verdict("ours on each Python", asked, f"{behind[worst]:.2f}", worst, holds)
