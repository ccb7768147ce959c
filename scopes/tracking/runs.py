"""What a run has kept that a history has watched: a program, a notebook's cell, or a test."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from scopes.tracking.history import leaking, told_lines
from scopes.tracking.sizes import format_bytes

if TYPE_CHECKING:
    from scopes.tracking.history import History
    from scopes.tracking.leaks import LeakReport

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
    """

    def __init__(self, history: History, name: str) -> None:
        highest = history.high_water_mark()
        at_the_end = history.look(with_all_holders=True)
        #: The reports, each with its title; first what tells of most memory.
        self.parts: list[tuple[str, LeakReport]] = [(f"{name} has ended.", at_the_end)]
        if highest is not None and not _tells_all_of(at_the_end, highest[0]):
            # Most often what the locals of its functions held.
            report, seconds = highest
            title = f"{name} has ended. It held most after {seconds:.3g} s:"
            self.parts = [(title, report), ("At the end:", at_the_end)]
        self._look_count = len(history.looks)

    def __str__(self) -> str:
        return "\n\n".join([*[f"{title}\n{report}" for title, report in self.parts], self._verdict()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = [f"<h4>{escape(title)}</h4>\n{report._repr_html_()}" for title, report in self.parts]
        return "\n".join([*tables, f"<p>{escape(self._verdict())}</p>"])

    def _verdict(self) -> str:
        _, verdict = self.judge()
        return f"{verdict[0].upper()}{verdict[1:]}."

    def judge(self, threshold: int = LEAST_GROWTH) -> tuple[bool, str]:
        """Tell whether lines keep more and more, by `threshold` bytes or more; which, and what was judged."""
        lines = {site: weight for _, report in self.parts for site, weight in leaking(report, threshold)}
        judged = (
            f"Judged was what each line kept, with graphs, at {self._look_count:,} moments of the run, at "
            "the high-water mark and at the end. A leak is what has risen all along, "
            f"by {format_bytes(threshold)} or more"
        )
        if not lines:
            return False, f"no line keeps more and more. {judged}"
        count = "1 line keeps" if len(lines) == 1 else f"{len(lines)} lines keep"
        return True, f"{count} more and more: {told_lines(list(lines.items()))}. {judged}"


def _tells_all_of(end: LeakReport, highest: LeakReport) -> bool:
    """Tell whether the end holds nearly as much as there ever was, and the same lines grow."""
    growing = {row.site for row in highest.rows if row.is_growing}
    return end.weight >= _NEARLY * highest.weight and growing <= {
        row.site for row in end.rows if row.is_growing
    }
