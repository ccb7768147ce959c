"""Results of runs as they were written, and how cases are judged by several of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from benchmarks.contenders import OURS
from benchmarks.levels import LEVELS

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Measurement:
    """What one run measured of a case, by contender: medians in its unit, and how these compare."""

    name: str
    unit: str
    medians: Mapping[str, float]
    relative: Mapping[str, float]

    def ratio(self, other: str) -> float | None:
        """Return the other's figure over ours; None if either is missing."""
        if OURS not in self.relative or other not in self.relative:
            return None
        return self.relative[other] / self.relative[OURS]

    @property
    def spread(self) -> float:
        """The most that a contender takes over the least."""
        return max(self.relative.values()) / min(self.relative.values())


@dataclass(frozen=True)
class Run:
    """One JSON file, or several of one kind."""

    report: Mapping[str, Any]

    @classmethod
    def read(cls, *paths: Path) -> Self:
        """Read files of one kind; who ran and when is that of the first."""
        first, *others = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
        return cls({**first, "cases": sum((other["cases"] for other in others), start=first["cases"])})

    @cached_property
    def cases(self) -> Mapping[str, Measurement]:
        """The cases by name, but for those that were measured while others used the machine."""
        return {
            case["name"]: Measurement(
                case["name"],
                case["unit"],
                {who: summary["median"] for who, summary in case["contenders"].items()},
                {who: summary["relative"] for who, summary in case["contenders"].items()},
            )
            for case in self.report["cases"]
            if not case["disturbed"]
        }

    @property
    def disturbed(self) -> list[str]:
        """The names of those."""
        return [case["name"] for case in self.report["cases"] if case["disturbed"]]


def levels_of(folder: Path) -> dict[str, Run]:
    """Read the runs that hold all contenders to an instruction set, by its name."""
    paths = {name: sorted(folder.glob(f"{name}.*json")) for name in LEVELS}
    return {name: Run.read(*found) for name, found in paths.items() if found}


@dataclass(frozen=True)
class Runs:
    """What the page is made of: contenders in one process, each in its own, and ours on several Pythons.

    `levels` has runs that hold all contenders to an instruction set, each contender in its own process.
    """

    together: Run
    alone: Run
    pythons: Run
    levels: Mapping[str, Run] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what ``python -m benchmarks.performance`` leaves in a folder."""
        together = Run.read(*(folder / f"{name}.json" for name in ("together", "peaks", "scaling")))
        return cls(
            together,
            Run.read(folder / "alone.json"),
            Run.read(folder / "pythons.json"),
            levels_of(folder),
        )

    @classmethod
    def read_levels(cls, folder: Path) -> Self:
        """Read the runs of instruction sets, and the peaks of memory if these were measured too."""
        nothing = Run({"cases": [], "pythons": {}})
        peaks = folder / "peaks.json"
        return cls(Run.read(peaks) if peaks.exists() else nothing, nothing, nothing, levels_of(folder))

    @property
    def compared(self) -> tuple[Run, ...]:
        """The runs that compare ours with others."""
        return (self.together, self.alone, *self.levels.values())

    @property
    def names(self) -> Iterable[str]:
        """The names of the cases of these runs, each once."""
        return dict.fromkeys(name for run in self.compared for name in run.cases)

    def judged(self, name: str, other: str) -> float | None:
        """Return the ratio of the case that flatters ours less."""
        cases = [run.cases[name] for run in self.compared if name in run.cases]
        ratios = [ratio for case in cases if (ratio := case.ratio(other)) is not None]
        return min(ratios, default=None)
