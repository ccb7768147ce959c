"""What became of the samples of one entry of a data base."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# What can become of a sample.
OUTCOMES = ("equal", "different", "refused", "by rule", "raised", "accepted", "bare")


@dataclass
class Counts:
    """How many samples of an entry had each outcome, and a line for each that is not as it should be."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str, line: str = "") -> None:
        """Count one sample: `kind` says what was run, `outcome` what came out, `line` the details."""
        self.outcomes[f"{kind} {outcome}"] += 1
        if line and outcome != "by rule":
            self.lines.append(f"{self.name} {kind} {outcome}: {line}")

    def take_as(self, kind: str, other: Counts) -> None:
        """Count all samples of `other`, whatever was run, as of `kind`."""
        for outcome, n in other.outcomes.items():
            for word in OUTCOMES:
                if outcome.endswith(f" {word}"):
                    self.outcomes[f"{kind} {word}"] += n
        self.lines += [line.replace(" ", f" {kind} ", 1) for line in other.lines]

    def total(self, *kinds: str, outcome: str) -> int:
        """Return how many samples of these kinds had an outcome."""
        return sum(self.outcomes[f"{kind} {outcome}"] for kind in kinds)
