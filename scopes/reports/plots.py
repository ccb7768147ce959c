"""Plot a timeline with matplotlib: memory over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scopes._shared.extras import how_to_install
from scopes.reports.downsampling import Sample, peaks

if TYPE_CHECKING:
    from os import PathLike

    from scopes.tracking.sites import Site

    # matplotlib's classes. It is optional.
    Axes = Any
    Figure = Any

NO_MATPLOTLIB = (
    f"plotting a timeline needs matplotlib, which is not installed: {how_to_install('plot')}. "
    "timeline.save('trace.json') works without it; https://ui.perfetto.dev opens the file"
)

_LAYOUT: dict[str, Any] = {"figsize": (11, 5), "layout": "constrained"}

# The number of scopes with their own colour: those that are open longest.
_MAX_COLOURS = 9
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_OTHERS = "other scopes"
_OUTSIDE = "no scope"


class Growth(NamedTuple):
    """The growth of a leaking line."""

    site: Site
    #: Pairs of a time and the bytes created until then that are alive at the end.
    steps: list[tuple[int, int]]


def draw(samples: list[Sample], growths: list[Growth], path: str | PathLike[str] | None) -> Figure:
    """Draw `samples` and `growths`, and write the image to `path`, or return a figure of pyplot."""
    try:
        if path is None:
            from matplotlib import pyplot

            figure = pyplot.figure(**_LAYOUT)
        else:
            from matplotlib.figure import Figure

            figure = Figure(**_LAYOUT)
    except ImportError as missing:
        raise ModuleNotFoundError(NO_MATPLOTLIB, name="matplotlib") from missing
    samples = sorted(samples, key=itemgetter(0))
    axes = figure.add_subplot()
    _draw_memory(axes, samples)
    _draw_growths(axes, samples, growths)
    if samples:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, title="scope")
    _mark_peaks(axes, samples)
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure


def _draw_memory(axes: Axes, samples: list[Sample]) -> None:
    start = samples[0].at if samples else 0
    exponent, unit = _unit(samples)
    scale = 1024**exponent
    labels = _labels(samples)
    colours = {label: f"C{i}" for i, label in enumerate(labels)}
    seen = set()
    for label, run in _runs(samples, labels):
        seconds = [(sample.at - start) / 1e9 for sample in run]
        live = [sample.live / scale for sample in run]
        colour = colours.get(label, "lightgrey" if label == _OUTSIDE else "grey")
        name = None if label in seen else label
        seen.add(label)
        axes.fill_between(seconds, live, step="post", color=colour, alpha=0.6, linewidth=0, label=name)
    seconds = [(sample.at - start) / 1e9 for sample in samples]
    live = [sample.live / scale for sample in samples]
    axes.step(seconds, live, where="post", color="black", linewidth=0.6)
    both = [(sample.live + sample.cached) / scale for sample in samples]
    axes.step(seconds, both, where="post", color="grey", linewidth=0.8, linestyle=":", label="live + cached")
    axes.set(xlabel="seconds", ylabel=f"memory ({unit})", ylim=(0, None))
    axes.margins(x=0.01)  # so that a peak at the very end is visible


def _draw_growths(axes: Axes, samples: list[Sample], growths: list[Growth]) -> None:
    """Draw the bytes that each leaking line left."""
    scale = 1024 ** _unit(samples)[0]
    for i, growth in enumerate(growths):
        # Extend the curve to the last sample, because all these bytes are alive at the end.
        steps = [*growth.steps, (samples[-1].at, growth.steps[-1][1])]
        seconds = [(at - samples[0].at) / 1e9 for at, _ in steps]
        left = [nbytes / scale for _, nbytes in steps]
        name = f"leak: {_line_of(growth.site)}"
        style = ("-", "--", ":")[i % 3]
        axes.step(seconds, left, where="post", color="crimson", linewidth=1.8, linestyle=style, label=name)


def _line_of(site: Site) -> str:
    return f"{Path(site.file).name}:{site.line}"


def _unit(samples: list[Sample]) -> tuple[int, str]:
    highest = max([sample.live + sample.cached for sample in samples], default=0)
    exponent = min(max(highest.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return exponent, _UNITS[exponent]


def _label(path: tuple[str, ...]) -> str:
    return path[-1] if path else _OUTSIDE


def _labels(samples: list[Sample]) -> list[str]:
    """Return the names of the scopes that were open longest, in order of appearance."""
    time: Counter[str] = Counter()
    for sample, following in pairwise(samples):
        if sample.path:
            time[_label(sample.path)] += following.at - sample.at
    most = {label for label, _ in time.most_common(_MAX_COLOURS)}
    return [label for label in time if label in most]


def _runs(samples: list[Sample], labels: list[str]) -> Iterator[tuple[str, list[Sample]]]:
    """Yield consecutive samples of one scope, with the first sample of the next scope."""
    run: list[Sample] = []
    current = ""
    for sample in samples:
        label = _label(sample.path)
        if label != _OUTSIDE and label not in labels:
            label = _OTHERS
        if run and label != current:
            yield current, [*run, sample]
            run = []
        current = label
        run.append(sample)
    if run:
        yield current, run


def _mark_peaks(axes: Axes, samples: list[Sample]) -> None:
    scale = 1024 ** _unit(samples)[0]
    # List the lines below the plot, so that no texts overlap.
    labels = []
    found = [peak for peak in peaks(samples) if peak.site is not None]
    for number, peak in enumerate(sorted(found, key=lambda peak: peak.at), 1):
        at = ((peak.at - samples[0].at) / 1e9, peak.live / scale)
        axes.plot(*at, "o", color="black", markersize=11, clip_on=False)
        axes.annotate(
            str(number), at, color="white", fontsize=8, ha="center", va="center", annotation_clip=False
        )
        if peak.site is not None:
            labels.append(f"{number}  {_line_of(peak.site)}  {peak.site.text[:90]}")
    if labels:
        axes.figure.supxlabel("\n".join(labels), fontsize=9, x=0.06, ha="left", family="monospace")
