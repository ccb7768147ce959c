"""What lines kept all along a run: its high-water mark, and what has risen throughout.

Tracking alone tells of this moment. But what the locals of a function held goes when it returns, and of one
tensor whose graph grows and grows (``total = total + loss``) a moment tells nothing. So this looks again and
again at all that is alive, with what graphs keep: after some hundredths more of creations, and when a
tenth more memory is alive, so that a long run has few more looks than a short one.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from scopes.core.foreign import last_op_of
from scopes.tracking import tracking
from scopes.tracking.holders import MOST_REFERENCES, Effort
from scopes.tracking.leaks import LeakReport, Snapshot, in_order, line_of, report_of, with_holders
from scopes.tracking.pages import Curve, chart_of
from scopes.tracking.records import serial_of
from scopes.tracking.sizes import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from scopes.core.scope import DisposeScope
    from scopes.tracking.records import Record
    from scopes.tracking.reports import Report
    from scopes.tracking.sites import Site

_PART = 48
_UNEVEN = 0.618
_GROWTH = 1.1
# What looks may cost: so much, and so much for each creation. When that is used up, there is still one when
# a quarter more has been created. The cost is one for each disposable, operation and reference that is looked
# at, and _LOOK for the rest. It is not counted in seconds: a slow machine would look less, and find less.
_FREE, _FOR_EACH_CREATION = 100_000, 1 / 8
_ALWAYS_AFTER = 1.25
_LOOK = 100
# Of each look the lines that keep most are noted; when there are more looks than these, every second of the
# older half goes.
_MOST_LINES = 16
_MOST_LOOKS = 512
# A look searches for holders when twice as much is kept as at the last search, or twice as much was created.
# Before that, so many bytes must be kept, or so many disposables created. It follows so many references.
_LEAST_SEARCHED, _FEWEST_SEARCHED = 16 * 1024, 64
_MOST_REFERENCES = 30_000
# Of so many of the newest disposables it is asked what they were computed by.
_MOST_LAST = 64
_MOST_CURVES = 4


class Look(NamedTuple):
    """What was alive at one moment."""

    #: Nanoseconds after the beginning.
    at: int
    #: How many disposables had been created, and how many had ended.
    births: int
    deaths: int
    #: What all lines kept, with their graphs, by weight; and what the heaviest lines kept, by weight.
    weight: int
    weights: dict[Site, int]


class History:
    """Listens while tracking is on.

    Parameters
    ----------
    every
        After so many seconds, and again and again, `tell` is called with a report in words, on the thread
        that creates something next; None: never.
    since
        What was created before is none of it.
    """

    def __init__(
        self,
        every: float | None = None,
        tell: Callable[[str], object] | None = None,
        since: Snapshot | None = None,
    ) -> None:
        self._since = Snapshot(0, {}) if since is None else since
        self.looks: list[Look] = []
        #: What was alive when most was, as it was then.
        self.highest: LeakReport | None = None
        self._highest_at = 0
        self._weight = 0
        self._holders: dict[Site, str] = {}
        self._searched_weight = self._searched_births = 0
        # Lines whose graphs outlive the tensors that they were recorded for: what a line had made last at the
        # last look, with the operation that made it; and the lines of which this is known.
        self._last: dict[Site, tuple[Record, ref[Any]]] = {}
        self._lasting: set[Site] = set()
        # The newest that was created before, and how many have been created since, and have ended of these.
        self._newest_before = 0
        self._births = self._deaths = 0
        self._bytes_alive = 0
        self._next_births, self._next_bytes = 1, 64 * 1024
        self._began = time.perf_counter_ns()
        self._cost = 0
        self._look_births = 0
        self._is_looking = False
        self._every = None if every is None else int(every * 1e9)
        self._tell = _to_stderr if tell is None else tell
        self._next_tale = sys.maxsize if self._every is None else self._began + self._every

    def begin(self) -> None:
        """Listen from now on; tracking is on."""
        tracker = tracking.current.tracker
        if tracker is not None:
            self._newest_before = tracker.serial
            tracker.listeners += (self,)

    def end(self) -> None:
        """Stop listening."""
        tracker = tracking.current.tracker
        if tracker is not None:
            tracker.listeners = tuple([each for each in tracker.listeners if each is not self])

    def created(self, record: Record) -> None:
        """Look at what is alive, if it is time."""
        births = self._births = self._births + 1
        nbytes = self._bytes_alive = self._bytes_alive + record.nbytes
        if births >= self._next_births or nbytes > self._next_bytes:
            self._look_if_free()
        if record.created_at >= self._next_tale:
            self._tell_all(record.created_at)

    def ended(self, record: Record, _how: str) -> None:
        """Stop counting it."""
        # The collector may free earlier garbage at any moment: it does not belong to this run.
        if record.serial > self._newest_before:
            self._deaths += 1
            self._bytes_alive -= record.nbytes

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Nothing is to be counted."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Nothing is to be counted."""

    def _look_if_free(self) -> None:
        births = self._births
        stride = max(births // _PART, 1)
        # Uneven strides: even ones could be those of the program's own steps, and see the same of each.
        self._next_births = births + stride + int(stride * (len(self.looks) * _UNEVEN % 1))
        is_cheap = self._cost <= _FREE + births * _FOR_EACH_CREATION
        if self._is_looking or not (is_cheap or births >= self._look_births * _ALWAYS_AFTER):
            return
        self._is_looking = True
        try:
            self.look()
        except (AttributeError, RuntimeError):
            pass  # another thread is about to complete or to change something: the next look will do
        else:
            self._next_bytes = max(self._next_bytes, int(self._bytes_alive * _GROWTH))
        finally:
            self._is_looking = False

    def look(self, *, with_all_holders: bool = False) -> LeakReport:
        """Look at what is alive now, note it, and return the report of it, judged by all looks so far."""
        tracker = tracking.current.tracker
        alive = [] if tracker is None else tracker.alive()
        before = bisect_right(alive, self._since.serial, key=serial_of)
        items = alive[before:]
        self._find_lasting(items)
        report = report_of(items, self._since, alive[:before], self._lasting)
        weight = report.weight
        self._look_births = self._births
        self._cost += _LOOK + before + sum([row.count + row.op_count for row in report.rows])
        at = time.perf_counter_ns() - self._began
        heaviest = sorted(report.rows, key=lambda row: -row.weight)[:_MOST_LINES]
        weights = {row.site: row.weight for row in heaviest}
        self.looks.append(Look(at, self._births, self._deaths, weight, weights))
        if weight >= self._weight:
            self._weight, self.highest, self._highest_at = weight, report, self.looks[-1].at
        if len(self.looks) > _MOST_LOOKS:
            half = len(self.looks) // 2
            self.looks[:half] = self.looks[:half:2]
        is_other = weight > 2 * self._searched_weight or self._births > 2 * self._searched_births
        is_enough = weight > _LEAST_SEARCHED or (weight and self._births >= _FEWEST_SEARCHED)
        if with_all_holders or (is_other and is_enough):
            self._searched_weight = max(weight, self._searched_weight)
            self._searched_births = self._births
            most = MOST_REFERENCES if with_all_holders else _MOST_REFERENCES
            judged = self._judged(report, len(self.looks))
            # Its cost is not counted: that depends on the heap, and searches are few.
            report = with_holders(judged, items, Effort(most), in_libraries=with_all_holders)
            self._holders.update({row.site: row.holder for row in report.rows if row.holder})
        return self._judged(report, len(self.looks))

    def _find_lasting(self, items: list[tuple[Record, Any]]) -> None:
        """Find the lines that feed what they made into what they make next: hidden states, running sums.

        What a tensor was computed by is gone with it, unless a later one was computed from it. So where two
        lines keep one graph, that of the last loss and the hidden state, it is put to the hidden state.
        """
        for site, (record, op) in list(self._last.items()):
            if record() is None:
                if op() is None:
                    self._lasting.discard(site)
                else:
                    self._lasting.add(site)
                del self._last[site]
        for record, x in reversed(items[-_MOST_LAST:]):
            site = line_of(record)
            if site not in self._last:
                made_by = last_op_of(x)
                if made_by is not None:
                    self._last[site] = record, ref(made_by)

    def high_water_mark(self) -> tuple[LeakReport, float] | None:
        """Return what was alive when most was, judged by what came before, and after how many seconds."""
        if self.highest is None:
            return None
        until = next(n for n, look in enumerate(self.looks, 1) if look.at >= self._highest_at)
        return self._judged(self.highest, until), self._highest_at / 1e9

    def chart(self, report: Report) -> str:
        """Return a picture of what was kept over time, as HTML, with the first lines of `report` in it."""
        rows = report.rows if isinstance(report, LeakReport) else ()
        parts = [
            Curve(str(row.site), [(look.at / 1e9, look.weights.get(row.site, 0)) for look in self.looks])
            for row in rows[:_MOST_CURVES]
            if row.weight
        ]
        return chart_of(Curve("all", [(look.at / 1e9, look.weight) for look in self.looks]), parts)

    def _judged(self, report: LeakReport, until: int) -> LeakReport:
        """Return `report` with what the first `until` looks say of its lines."""
        looks = self.looks[:until]
        now, then = self.looks[-1], looks[-1]
        # What was kept in a short first part of a run, and went, has not risen all along.
        is_early = then.births * 2 < now.births
        rows = []
        for row in report.rows:
            rise = risen(looks, row.site) if row.weight else None
            if is_early:
                rise = NO_RISE
            is_growing = row.is_growing
            if rise is not None:
                is_growing = rise.is_steady or (
                    rise.is_possible and row.is_growing and row.count >= _FEWEST_LEFT
                )
            rows.append(
                replace(
                    row,
                    is_growing=is_growing,
                    risen=(row.weight if rise is None else rise.amount) if is_growing else 0,
                    count_per_round=row.count_per_round if is_growing else 0.0,
                    bytes_per_round=row.bytes_per_round if is_growing else 0.0,
                    holder=row.holder or self._holders.get(row.site, ""),
                )
            )
        return replace(report, rows=in_order(rows))

    def _tell_all(self, now: int) -> None:
        if self._is_looking or self._every is None:
            return
        self._next_tale = now + self._every
        self._is_looking = True
        try:
            report = self.look(with_all_holders=True)
        except (AttributeError, RuntimeError):
            return
        finally:
            self._is_looking = False
        self._tell(f"\nAfter {(now - self._began) / 1e9:.3g} s: {report}")


def _to_stderr(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


# So many looks at least tell growth, over this part of a run at least.
_FEWEST_LOOKS = 8
_LEAST_PART = 1 / 2
# Where it may have risen, it is a leak if so many things are left, from all parts of the run.
_FEWEST_LEFT = 3
_OUTLIERS = 6
# The end is so large a part of it.
_LAST_PART = 16


class Rise(NamedTuple):
    """How what a line kept has risen, in weight."""

    amount: int
    #: Whether it has risen throughout; and whether it may have, though most of it came in some leaps.
    is_steady: bool
    is_possible: bool


NO_RISE = Rise(0, False, False)


def risen(looks: list[Look], site: Site) -> Rise | None:
    """Return how the least that `site` kept has risen all along the way; None where too few looks tell it.

    From when it kept something first, its way is cut into four parts, and what is compared is the least
    that it kept in each, and at the end: what comes and goes with each step has no part in that. It must
    have risen in three of the four steps between them.
    """
    first = next((n for n, look in enumerate(looks) if site in look.weights), None)
    if first is None or len(looks) - first < _FEWEST_LOOKS:
        return None
    # The clock is what has ended, which tells a loop from the building of what it works on. Where little
    # ends, it is what was made.
    is_by_deaths = looks[-1].deaths * 4 >= looks[-1].births
    clock = [look.deaths if is_by_deaths else look.births for look in looks]
    begin, end = clock[first], clock[-1]
    if end == begin:
        return None
    if end - begin < (end - clock[0]) * _LEAST_PART:
        return NO_RISE
    last = end - (end - begin) // _LAST_PART
    parts: list[list[int]] = [[], [], [], [], []]
    for look, at in zip(looks[first:], clock[first:], strict=True):
        weight = look.weights.get(site, 0)
        parts[min((at - begin) * 4 // (end - begin), 3)].append(weight)
        if at >= last:
            parts[4].append(weight)
    if not all(parts):
        return None
    # Not the very least: now and then a graph is put to another line that keeps it too, for a moment.
    floors = [sorted(part)[len(part) // _OUTLIERS] for part in parts]
    total = floors[-1] - floors[0]
    least = max(total / 12, 1)
    steps = [later - earlier for earlier, later in pairwise(floors)]
    rises = [step >= least for step in steps]
    if total <= 0 or min(steps) < -least:
        return NO_RISE
    return Rise(total, sum(rises) >= 3, sum(rises) == 2 and any(rises[2:]))


def leaking(report: LeakReport, threshold: int) -> list[tuple[Site, int]]:
    """Return the lines of `report` that keep more and more, by `threshold` bytes or more: with how much."""
    return [(row.site, row.risen) for row in report.rows if row.is_growing and row.risen >= threshold]


def told_lines(lines: list[tuple[Site, int]]) -> str:
    """Return such lines in words."""
    return ", ".join([f"{site} ({format_bytes(weight)})" for site, weight in lines])
