"""What became of the samples of one entry of a data base."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


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

    def total(self, *kinds: str, outcome: str) -> int:
        """Return how many samples of these kinds had an outcome."""
        return sum(self.outcomes[f"{kind} {outcome}"] for kind in kinds)
