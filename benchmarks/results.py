"""Results of runs, and ratios of cases over several runs."""

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
    """The measurements of a case in one run: the medians of each contender, and their ratios."""

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
        """The largest figure of a contender over the smallest."""
        return max(self.relative.values()) / min(self.relative.values())


@dataclass(frozen=True)
class Run:
    """One JSON file, or several of one kind."""

    report: Mapping[str, Any]

    @classmethod
    def read(cls, *paths: Path) -> Self:
        """Read files of one kind. The machine and the date are those of the first file."""
        first, *others = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
        return cls({**first, "cases": sum((other["cases"] for other in others), start=first["cases"])})

    @cached_property
    def cases(self) -> Mapping[str, Measurement]:
        """The cases by name, without those that were measured while other programs used the machine."""
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
        """The names of the cases that were measured while other programs used the machine."""
        return [case["name"] for case in self.report["cases"] if case["disturbed"]]


def levels_of(folder: Path) -> dict[str, Run]:
    """Read the runs that limit all contenders to an instruction set, by its name."""
    paths = {name: sorted(folder.glob(f"{name}.*json")) for name in LEVELS}
    return {name: Run.read(*found) for name, found in paths.items() if found}


@dataclass(frozen=True)
class Runs:
    """The runs for the page: contenders in one process, each in its own, and ours on several Pythons.

    `levels` has runs that limit all contenders to an instruction set, each contender in its own process.
    """

    together: Run
    alone: Run
    pythons: Run
    levels: Mapping[str, Run] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the results of ``python -m benchmarks.performance`` from a folder."""
        together = Run.read(*(folder / f"{name}.json" for name in ("together", "peaks", "scaling")))
        return cls(
            together,
            Run.read(folder / "alone.json"),
            Run.read(folder / "pythons.json"),
            levels_of(folder),
        )

    @classmethod
    def read_levels(cls, folder: Path) -> Self:
        """Read the runs of instruction sets, and the peaks of memory if they were measured too."""
        nothing = Run({"cases": [], "pythons": {}})
        peaks = folder / "peaks.json"
        return cls(Run.read(peaks) if peaks.exists() else nothing, nothing, nothing, levels_of(folder))

    @property
    def compared(self) -> tuple[Run, ...]:
        """The runs that compare ours with other contenders."""
        return (self.together, self.alone, *self.levels.values())

    @property
    def names(self) -> Iterable[str]:
        """The names of the cases of these runs, each once."""
        return dict.fromkeys(name for run in self.compared for name in run.cases)

    def judged(self, name: str, other: str) -> float | None:
        """Return the ratio that is worse for ours: in one process, or in separate ones."""
        cases = [run.cases[name] for run in self.compared if name in run.cases]
        ratios = [ratio for case in cases if (ratio := case.ratio(other)) is not None]
        return min(ratios, default=None)
