"""Plots: the ratios of each goal, and the growth of costs, with a file for each growing number."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from benchmarks.claims import Standing
from benchmarks.contenders import NUMPY, OURS, TORCH
from benchmarks.report import HEADINGS
from benchmarks.results import Measurement, Run

NAME = re.compile(r"scaling/(?P<what>.+), (?P<grows>.+): (?P<count>[\d,]+)")
PER = {"tensors in a scope": "tensor", "nested": "scope", "threads": "addition", "parameters": "parameter"}
COLOURS = {OURS: "#0b6fa4", NUMPY: "#c9820a", TORCH: "#8c4a8c"}
INK = "#444444"


def draw_standings(standings: Iterable[Standing], folder: Path) -> Path:
    """Draw the ratios of each goal, from its worst case to its best, as a PNG file, and return its path."""
    from matplotlib.figure import Figure

    rows = list(standings)
    figure = Figure(figsize=(8, 1 + 0.27 * len(rows)), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for height, standing in enumerate(reversed(rows)):
        ratios = sorted(standing.ratios.values())
        colour = COLOURS[OURS] if ratios[0] >= 1 else COLOURS[NUMPY]
        axes.plot((ratios[0], ratios[-1]), (height, height), "-", color=colour, linewidth=1.5)
        axes.plot(ratios, [height] * len(ratios), "o", color=colour, markersize=3, alpha=0.5)
        axes.plot(median(ratios), height, "o", color=colour, markersize=6)
        axes.plot(standing.least, height, "|", color=INK, markersize=11)
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [standing.goal for standing in reversed(rows)])
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    # Save the whole figure, because the names of goals are beside the axes.
    figure.supxlabel(
        "PyTorch / ours, each case a dot, the median a large one; right of 1 ours is quicker, or takes less; "
        "bars are goals",
        fontsize=7,
        color=INK,
    )
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(axis="x", linewidth=0.4, color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    path = folder / "performance_standings.png"
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


def draw(run: Run, folder: Path) -> list[Path]:
    """Draw the cases of the family ``scaling`` as PNG files in a folder, and return their paths."""
    panels: dict[str, dict[str, list[tuple[int, Measurement]]]] = defaultdict(lambda: defaultdict(list))
    for case in run.cases.values():
        if match := NAME.fullmatch(case.name):
            count = int(match["count"].replace(",", ""))
            panels[match["grows"]][match["what"]].append((count, case))
    return [_figure(grows, panels[grows], folder) for grows in panels]


def _figure(grows: str, panels: dict[str, list[tuple[int, Measurement]]], folder: Path) -> Path:
    # Without pyplot, there is no window and no shared state.
    from matplotlib.figure import Figure

    # A light background, so that the plot is readable on light and dark pages.
    figure = Figure(figsize=(4.2 * len(panels), 2.9), layout="constrained", facecolor="white")
    for axes, (what, points) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for who, colour in COLOURS.items():
            line = [(count, case.medians[who] * 1e6) for count, case in sorted(points) if who in case.medians]
            if line:
                label = "disposescope" if who == OURS else HEADINGS[who]
                axes.plot(
                    *zip(*line, strict=True), "o-", color=colour, markersize=3, linewidth=1.2, label=label
                )
        axes.set_title(what, fontsize=9, color=INK)
        axes.set_xlabel("nested scopes" if grows == "nested" else grows, fontsize=8, color=INK)
        axes.set_ylabel(f"time per {PER[grows]} (us)", fontsize=8, color=INK)
        axes.set_xscale("log", base=2 if grows == "threads" else 10)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8, colors=INK)
        axes.grid(axis="y", linewidth=0.4, color="#dddddd")
        axes.spines[["top", "right"]].set_visible(False)
        if grows == "threads":
            counts = sorted(count for count, _ in points)
            axes.set_xticks(counts, [str(count) for count in counts])
            axes.minorticks_off()
        axes.legend(fontsize=7, frameon=False, labelcolor=INK)
    path = folder / f"performance_{grows.split()[0]}.png"
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path
