"""What a run has kept that a history has watched: a program, a notebook's cell, or a test."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from scopes.tracking.history import leaking, told_lines
from scopes.tracking.leaks import lines_of
from scopes.tracking.sizes import format_bytes

if TYPE_CHECKING:
    from scopes.tracking.history import History
    from scopes.tracking.leaks import LeakReport
    from scopes.tracking.sites import Site

# By so much a line grows at least to be a leak, if nothing is said.
LEAST_GROWTH = 64 * 1024
# The end is as good as the high-water mark when it holds nearly as much.
_NEARLY = 0.9


class Outcome:
    """What a run kept, by creation line: at its end, and before at the high-water mark, if there was more.

    Parameters
    ----------
    history
        What has watched the run. Tracking is still on.
    name
        What has run.
    threshold
        By so many bytes a line grows at least to be a leak.
    """

    def __init__(self, history: History, name: str, threshold: int = LEAST_GROWTH) -> None:
        highest = history.high_water_mark()
        at_the_end = history.look(with_all_holders=True)
        self._at_the_end = at_the_end
        self._highest: tuple[LeakReport, float] | None = None
        self._moments = [(look.at / 1e9, look.weight) for look in history.looks]
        #: The reports, each with its title; first what tells of most memory.
        self.parts: list[tuple[str, LeakReport]] = [(f"{name} has ended.", at_the_end)]
        if highest is not None and not _tells_all_of(at_the_end, highest[0]):
            # Most often what the locals of its functions held.
            self._highest = report, seconds = highest
            title = f"{name} has ended. It held most after {seconds:.3g} s:"
            self.parts = [(title, report), ("At the end:", at_the_end)]
        lines = {site: weight for _, report in self.parts for site, weight in leaking(report, threshold)}
        self._leaking = lines
        #: Whether lines keep more and more; which, and what was judged.
        self.is_leaking: bool = bool(lines)
        self.verdict: str = _verdict(list(lines.items()), len(history.looks), threshold)

    def __str__(self) -> str:
        return "\n\n".join([*[f"{title}\n{report}" for title, report in self.parts], self.verdict])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return what the run kept as plain data: bytes are whole numbers, times are seconds.

        ``highest`` is None where the end tells all of it. ``leaking`` are the lines that keep more and more,
        each with the bytes by which it has risen. ``moments`` are times, each with the bytes of all lines.
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
        found = f"{count} more and more: {told_lines(lines)}."
    return (
        f"{found} Judged was what each line kept, with graphs, at {look_count:,} moments of the run, at the "
        "high-water mark and at the end. A leak is what has risen all along, by "
        f"{format_bytes(threshold)} or more."
    )


def _tells_all_of(end: LeakReport, highest: LeakReport) -> bool:
    """Tell whether the end holds nearly as much as there ever was, and the same lines grow."""
    growing = {row.site for row in highest.rows if row.is_growing}
    return end.weight >= _NEARLY * highest.weight and growing <= {
        row.site for row in end.rows if row.is_growing
    }
