"""Report of a run (a program, a notebook's cell, or a test) from its history."""

from __future__ import annotations

from html import escape
from typing import Any

from scopes.tracking.history import History, format_lines, leaking
from scopes.tracking.leaks import LeakReport, lines_of
from scopes.tracking.sites import Site
from scopes.tracking.sizes import format_bytes

# The default growth from which a line is a leak, in bytes.
LEAST_GROWTH = 64 * 1024
# The report omits the high-water mark if the end holds at least this fraction of it.
_NEARLY = 0.9


class Outcome:
    """Report of a run by creation line: at the end, and at the high-water mark if that was higher.

    Parameters
    ----------
    history
        The history of the run. Tracking must still be on.
    name
        The name of the run.
    threshold
        The growth in bytes from which a line is a leak.
    """

    def __init__(self, history: History, name: str, threshold: int = LEAST_GROWTH) -> None:
        highest = history.high_water_mark()
        at_the_end = history.look(with_all_holders=True)
        self._at_the_end = at_the_end
        self._highest: tuple[LeakReport, float] | None = None
        self._moments = [(look.at / 1e9, look.weight) for look in history.looks]
        #: The reports with their titles, largest first.
        self.parts: list[tuple[str, LeakReport]] = [(f"{name} has ended.", at_the_end)]
        if highest is not None and not _is_nearly_all_of(at_the_end, highest[0]):
            # Usually the locals of functions held this memory.
            self._highest = report, seconds = highest
            title = f"{name} has ended. It held most after {seconds:.3g} s:"
            self.parts = [(title, report), ("At the end:", at_the_end)]
        lines = {site: weight for _, report in self.parts for site, weight in leaking(report, threshold)}
        self._leaking = lines
        #: Whether lines keep more and more memory.
        self.is_leaking: bool = bool(lines)
        #: Text with these lines and the number of measurements.
        self.verdict: str = _verdict(list(lines.items()), len(history.looks), threshold)

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


def _verdict(lines: list[tuple[Site, int]], look_count: int, threshold: int) -> str:
    found = "No line keeps more and more."
    if lines:
        count = "1 line keeps" if len(lines) == 1 else f"{len(lines)} lines keep"
        found = f"{count} more and more: {format_lines(lines)}."
    return (
        f"{found} The check covers the memory of each line, with graphs, at {look_count:,} moments of the "
        "run, at the high-water mark and at the end. A line leaks if its memory has grown throughout, by "
        f"{format_bytes(threshold)} or more."
    )


def _is_nearly_all_of(end: LeakReport, highest: LeakReport) -> bool:
    """Return whether the end holds nearly as much as the high-water mark, and the same lines grow."""
    growing = {row.site for row in highest.rows if row.is_growing}
    return end.weight >= _NEARLY * highest.weight and growing <= {
        row.site for row in end.rows if row.is_growing
    }
