"""The goals of the library, and the results of runs for each goal, judged by the worst case."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.contenders import OURS, TORCH
from benchmarks.results import Runs

GOALS = (
    ("op on one element in a scope", r"ops/(add|multiply by a number) 1$", 2.5),
    ("op on one element, recorded", r"ops/(add|multiply by a number) 1, recorded$", 1.8),
    ("view of one row", r"ops/row$", 1.5),
    ("100,000 tensors made, kept, disposed", r"scopes/make, keep and dispose each of 100,000$", 1.8),
    ("elementwise, 10,000", r"(memory|kept)/.* 10,000$", 1.0),
    ("elementwise, 100,000", r"(memory|kept)/.* 100,000$", 1.0),
    ("elementwise, 1,000,000", r"(memory|kept)/.* 1,000,000$", 1.0),
    ("three fresh results a step", r"fresh/", 1.0),
    ("elementwise, 10,000,000, results kept", r"memory/.* 10,000,000$", 2.0),
    ("softmax and cross entropy, with backward", r"reductions/(log_softmax|softmax|cross)", 1.0),
    ("layer and batch norm, with backward", r"reductions/(layer|batch) norm", 1.0),
    ("sums, means, maxima, variances", r"reductions/(sum|mean|max|argmax|var)", 1.0),
    ("dropout, linear map with activation, with backward", r"layers/", 1.0),
    ("optimizer step", r"optimizers/(?!muon|.*PyTorch)", 1.0),
    ("optimizer step, PyTorch's fused", r"optimizers/.*PyTorch fused$", 0.9),
    ("a scope with nothing in it, PyTorch: one addition", r"scopes/empty$", 2.5),
    ("training step, 64-128-10", r"training/64-128-10 ", 2.0),
    ("training step, 4-8096-4", r"training/4-8096-4 ", 1.4),
    ("training step, 784-512-256-10", r"training/784-512-256-10 ", 1.1),
    ("training step, 784-2048-2048-10", r"training/784-2048-2048-10 ", 1.05),
    ("training step, convolution 3x3", r"convolutions/", 0.9),
    ("training step, LSTM", r"recurrent/LSTM ", 0.9),
    ("attention", r"attention/\d", 0.9),
    ("training step, minGPT", r"attention/minGPT ", 0.9),
    ("inference, 64-128-10", r"inference/64-128-10 ", 2.0),
    ("inference, 4-8096-4", r"inference/4-8096-4 ", 1.2),
    ("inference, 784-512-256-10", r"inference/784-512-256-10 ", 1.1),
    ("inference, 784-2048-2048-10", r"inference/784-2048-2048-10 ", 1.05),
    ("peak memory", r"peaks/process:", 1.0),
    ("peak memory above a tiny network's", r"peaks/process, tiny before:", 1.0),
)
"""What is done, the cases, and how much better than PyTorch's ours shall be at least, in time or memory."""

# From this worst case on our library counts as ahead, and below this one as behind.
AHEAD, BEHIND = 1.1, 0.9
DISPOSAL = "scaling/dispose, tensors in a scope: "
# The largest cost per tensor over the smallest: memory outside of the caches is slower for all contenders.
LINEAR = 2.0
BEHIND_THE_BEST = 1.25


@dataclass(frozen=True)
class Verdict:
    """A goal, its required and its measured figure, the measured case, and whether the goal holds."""

    goal: str
    asked: str
    found: str
    case: str
    holds: bool


@dataclass(frozen=True)
class Standing:
    """The ratios of PyTorch's figures to ours in the cases of a goal: above 1, ours is better."""

    goal: str
    least: float
    ratios: Mapping[str, float]

    @property
    def worst(self) -> str:
        """The case with the least ratio."""
        return min(self.ratios, key=self.ratios.__getitem__)


def standings(runs: Runs) -> Iterator[Standing]:
    """Yield the ratios of each goal that has figures."""
    for goal, pattern, least in GOALS:
        ratios = {
            name: ratio
            for name in runs.names
            if re.match(pattern, name) and (ratio := runs.judged(name, TORCH)) is not None
        }
        if ratios:
            yield Standing(goal, least, ratios)


def verdicts(runs: Runs) -> Iterator[Verdict]:
    """Yield the verdict on each goal that has figures."""
    for standing in standings(runs):
        found = standing.ratios[standing.worst]
        asked = f"PyTorch / ours >= {standing.least}"
        yield Verdict(standing.goal, asked, f"{found:.2f}", standing.worst, found >= standing.least)
    yield from _of_lifetimes(runs)
    yield from _of_pythons(runs)


def _of_lifetimes(runs: Runs) -> Iterator[Verdict]:
    cases = runs.together.cases
    disposals = {name: case.medians[OURS] for name, case in cases.items() if name.startswith(DISPOSAL)}
    if disposals:
        most = max(disposals, key=disposals.__getitem__)
        ratio = disposals[most] / min(disposals.values())
        asked = f"costs per tensor within {LINEAR:.0f} times"
        yield Verdict("disposal is linear", asked, f"{ratio:.2f}", most, ratio <= LINEAR)


def _of_pythons(runs: Runs) -> Iterator[Verdict]:
    behind = {name: case.spread for name, case in runs.pythons.cases.items()}
    if behind and len(runs.pythons.report["pythons"]) > 1:
        worst = max(behind, key=behind.__getitem__)
        holds = behind[worst] <= BEHIND_THE_BEST
        asked = f"worst / best <= {BEHIND_THE_BEST}"
        yield Verdict("ours on each Python", asked, f"{behind[worst]:.2f}", worst, holds)
