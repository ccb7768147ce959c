"""Report of a run (a program, a notebook's cell, or a test) from its history.

Growth is judged line by line over the whole run. So the report has up to three parts: the moment at which the
line with the largest growth held most, the run's high-water mark, and the end.
"""

from __future__ import annotations

from html import escape
from typing import Any

from scopes._shared.sizes import format_bytes, parse_size
from scopes.reports.history import FEWEST_LOOKS, MAX_LINES, Growth, History, format_lines
from scopes.reports.leak_report import LeakReport, lines_of
from scopes.tracking.sites import Site

# The default growth from which a line is a leak, in bytes.
LEAST_GROWTH = 64 * 1024
# The report omits the high-water mark if the end holds at least this fraction of it.
_NEARLY = 0.9


class Outcome:
    """Report of a run by creation line: at the end, and at earlier moments that held more.

    The first earlier moment is that at which the line with the largest growth held most, if its memory was
    freed later. The other one is the high-water mark.

    Parameters
    ----------
    history
        The history of the run. Tracking must still be on.
    name
        The name of the run.
    threshold
        The growth from which a line is a leak: bytes, or text such as ``"1 MB"``, which the verdict repeats.
    """

    def __init__(self, history: History, name: str, threshold: int | str = LEAST_GROWTH) -> None:
        least = parse_size(threshold, "threshold")
        highest = history.high_water_mark()
        at_the_end = history.look(with_all_holders=True)
        growing = {site: growth for site, growth in history.growing().items() if growth.rise.amount >= least}
        self._at_the_end = at_the_end
        self._highest: tuple[LeakReport, float] | None = None
        self._moments = [(look.at / 1e9, look.weight) for look in history.looks]
        largest = next(iter(growing.values()), None)
        freed = next((growth for growth in growing.values() if not growth.is_at_the_end), None)
        grown = None if freed is None else history.at_most_of(freed)
        if highest is not None and not _is_nearly_all_of(at_the_end, highest[0], growing):
            self._highest = highest  # usually the locals of functions held this memory
        #: The reports with their titles. That with the largest growth is first.
        self.parts: list[tuple[str, LeakReport]] = _parts(
            name, grown, self._highest, at_the_end, is_end_first=largest is not None and largest.is_at_the_end
        )
        self._leaking = {site: growth.rise.amount for site, growth in growing.items()}
        #: Whether lines keep more and more memory.
        self.is_leaking: bool = bool(growing)
        #: Text with these lines and the number of measurements.
        self.verdict: str = _verdict(list(self._leaking.items()), history, threshold)

    def __str__(self) -> str:
        return "\n\n".join([*[f"{title}\n{report}" for title, report in self.parts], self.verdict])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data: bytes are whole numbers, times are seconds.

        ``highest`` is None if the end holds nearly as much. ``leaking`` lists the lines that keep more and
        more, with their growth. ``moments`` lists times with the memory of all lines. In both, a graph's
        operation counts as 256 bytes.
        """
        highest = None
        if self._highest is not None:
            report, seconds = self._highest
            highest = {"after": seconds, **report.to_dict()}
        return {
            "highest": highest,
            "at_the_end": self._at_the_end.to_dict(),
            "leaking": [{"lines": lines_of(site), "risen": risen} for site, risen in self._leaking.items()],
            "moments": [list(moment) for moment in self._moments],
        }

    def _repr_html_(self) -> str:
        tables = [f"<h4>{escape(title)}</h4>\n{report._repr_html_()}" for title, report in self.parts]
        return "\n".join([*tables, f"<p>{escape(self.verdict)}</p>"])


def _parts(
    name: str,
    grown: tuple[LeakReport, float] | None,
    highest: tuple[LeakReport, float] | None,
    at_the_end: LeakReport,
    is_end_first: bool,
) -> list[tuple[str, LeakReport]]:
    """Return the reports with their titles."""
    if grown is not None and (highest is None or highest[0].weight * _NEARLY <= grown[0].weight):
        grown, highest = None, grown  # about the same moment, or about as much
    parts: list[tuple[str, LeakReport]] = []
    if grown is not None:
        parts.append((f"The line that grew held most after {grown[1]:.3g} s:", grown[0]))
    if highest is not None:
        parts.append((f"It held most after {highest[1]:.3g} s:", highest[0]))
    if not parts:
        return [(f"{name} has ended.", at_the_end)]
    parts.insert(0 if is_end_first else len(parts), ("At the end:", at_the_end))
    title, report = parts[0]
    return [(f"{name} has ended. {title}", report), *parts[1:]]


def _verdict(lines: list[tuple[Site, int]], history: History, threshold: int | str) -> str:
    look_count = len(history.looks)
    found = "No line keeps more and more."
    if lines:
        count = "1 line keeps" if len(lines) == 1 else f"{len(lines)} lines keep"
        found = f"{count} more and more: {format_lines(lines)}."
    elif look_count < FEWEST_LOOKS:
        found = (
            f"No line is known to keep more and more: the run was too short to judge growth, which takes "
            f"{FEWEST_LOOKS} moments."
        )
    which = "each line" if history.has_all_lines else f"the {MAX_LINES} heaviest lines"
    moments = "1 moment" if look_count == 1 else f"{look_count:,} moments"
    return (
        f"{found} The check covers the memory of {which}, with graphs, at {moments} of the run and at the "
        "end. A line leaks if its memory has grown throughout the run, or for half of the run before it was "
        f"freed, by {threshold if isinstance(threshold, str) else format_bytes(threshold)} or more."
    )


def _is_nearly_all_of(end: LeakReport, highest: LeakReport, growing: dict[Site, Growth]) -> bool:
    """Return whether the end holds nearly as much as the high-water mark, and the same lines grow."""
    is_freed = any(not growth.is_at_the_end for growth in growing.values())
    return end.weight >= _NEARLY * highest.weight and not is_freed
