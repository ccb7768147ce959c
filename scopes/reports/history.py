"""Measure the memory that each line keeps during a run: the high-water mark, and lines that grow.

Tracking alone shows one moment. It misses memory that the locals of a returned function held, and the growth
of one tensor's graph (``total = total + loss``). So a `History` measures all living disposables and their
graphs several times: these measurements are "looks". The next look follows when the number of creations has
grown by 2 to 4%, or the live memory by a tenth. So the number of looks grows with the logarithm of the run's
length.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from scopes._shared.sizes import format_bytes
from scopes._shared.stderr import write_to_stderr
from scopes.core.scope import is_kept_by_library, last_op_of
from scopes.reports.leak_report import LeakReport, LeakRow, in_order
from scopes.reports.leaks import Snapshot, line_of, report_of, with_holders, without_collection
from scopes.reports.pages import Curve, chart_of
from scopes.reports.tables import Report
from scopes.tracking import tracking
from scopes.tracking.counts import reference_counts
from scopes.tracking.holders import MAX_REFERENCES, Effort
from scopes.tracking.records import Record, serial_of
from scopes.tracking.sites import Site

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

_STRIDE_DIVISOR = 48
_GOLDEN_RATIO = 0.618
GROWTH = 1.1
# The budget of all looks: a fixed part, and a part for each creation. Above the budget, a look still follows
# after a quarter more creations. Each visited disposable or operation costs 1, and each look costs _LOOK. The
# unit is not seconds, because a slow machine would then look less often, and find less.
_FIXED_BUDGET, _BUDGET_PER_CREATION = 100_000, 1 / 8
_ALWAYS_AFTER = 1.25
_LOOK = 100
# Each look stores this many of the heaviest lines. When there are too many looks, every second one of the
# older half is dropped.
MAX_LINES = 128
_MAX_LOOKS = 512
# For each line, this many moments are kept after which it never held as much.
_MAX_HEIGHTS = 6
# The number of searches whose holders are kept for each line.
_MAX_FOUND = 8
# A look searches for holders when the kept memory or the number of creations has doubled since the last
# search. The first search needs this many bytes or creations. A search follows at most this many references.
_LEAST_SEARCHED, _FEWEST_SEARCHED = 16 * 1024, 64
_MAX_REFERENCES = 30_000
# The number of newest disposables whose last operation is recorded.
_MAX_LAST = 64
_MAX_CURVES = 4


class Look(NamedTuple):
    """One measurement of all living disposables."""

    #: Nanoseconds since the beginning.
    at: int
    #: The number of disposables created, and ended.
    births: int
    deaths: int
    #: The weight that all lines kept (see `LeakRow.weight`), and the weights of the heaviest lines.
    weight: int
    weights: dict[Site, int]


class _Height(NamedTuple):
    """A moment after which a line never held as much again: a drop of its memory follows, or nothing yet."""

    at: int
    row: LeakRow
    report: LeakReport


class Growth(NamedTuple):
    """The growth of a line, until the end of the run or until the line's memory was freed."""

    rise: Rise
    #: The moment at which the line held most, in nanoseconds, with its row and the report of that moment.
    height: _Height
    #: Whether the line held as much until the end.
    is_at_the_end: bool


class History:
    """Listener that measures the memory that each line keeps during a run.

    Parameters
    ----------
    every
        The seconds between reports. `tell` gets the text of each on the thread of the next creation. None: no
        reports.
    since
        Ignore disposables created before this snapshot.
    """

    # Attributes in slots are read faster: Python 3.11 has a slower dict for more than 30 of them.
    __slots__ = (
        "__weakref__",
        "_began",
        "_births",
        "_bytes_alive",
        "_cost",
        "_deaths",
        "_every",
        "_growth",
        "_growths",
        "_heights",
        "_highest_at",
        "_holders",
        "_is_looking",
        "_last",
        "_lasting",
        "_look_births",
        "_newest_before",
        "_next_births",
        "_next_bytes",
        "_next_moment",
        "_next_report",
        "_searched_births",
        "_searched_weight",
        "_since",
        "_tell",
        "_weight",
        "has_all_lines",
        "highest",
        "looks",
    )

    def __init__(
        self,
        every: float | None = None,
        tell: Callable[[str], object] | None = None,
        since: Snapshot | None = None,
    ) -> None:
        self._since = Snapshot(0, {}) if since is None else since
        self.looks: list[Look] = []
        #: The report of the high-water mark, from that moment.
        self.highest: LeakReport | None = None
        self._highest_at = 0
        self._weight = 0
        # For each line, its heights, each lower than the one before.
        self._heights: dict[Site, list[_Height]] = {}
        # The growth of the lines that were asked for since the last look.
        self._growths: dict[Site, Growth | None] = {}
        #: Whether all looks stored all lines, and not only the heaviest ones.
        self.has_all_lines = True
        # For each line, the moments of searches, and the holders found.
        self._holders: dict[Site, list[tuple[int, LeakRow]]] = {}
        self._searched_weight = self._searched_births = 0
        # For each line, its newest tensor at the last look, with the operation that created it. A line is
        # "lasting" if its graph outlives its tensors.
        self._last: dict[Site, tuple[Record, ref[Any]]] = {}
        self._lasting: set[Site] = set()
        # The serial number of the newest disposable at the beginning; how many were created since, and how
        # many of these have ended.
        self._newest_before = 0
        self._births = self._deaths = 0
        self._bytes_alive = 0
        self._next_births, self._next_bytes = 1, 64 * 1024
        self._began = time.perf_counter_ns()
        self._cost = 0
        self._look_births = 0
        self._is_looking = False
        self._every = None if every is None else int(every * 1e9)
        self._tell = write_to_stderr if tell is None else tell
        self._next_report = sys.maxsize if self._every is None else self._began + self._every
        # The first of the moments that `_at_moment` waits for.
        self._next_moment = self._next_report
        # By how much the live bytes grow until the next look.
        self._growth = GROWTH

    def begin(self) -> None:
        """Start listening. Tracking must be on."""
        tracker = tracking.current.tracker
        if tracker is not None:
            self._newest_before = tracking.newest_serial(tracker)
            tracker.listeners += (self,)

    def end(self) -> None:
        """Stop listening."""
        tracker = tracking.current.tracker
        if tracker is not None:
            tracker.listeners = tuple([each for each in tracker.listeners if each is not self])

    def created(self, record: Record) -> None:
        """Take a look if one is due."""
        births = self._births = self._births + 1
        nbytes = self._bytes_alive = self._bytes_alive + record.nbytes
        if births >= self._next_births or nbytes > self._next_bytes:
            self._look_if_free(record)
        if record.created_at >= self._next_moment:
            self._at_moment(record)

    def ended(self, record: Record, _how: str) -> None:
        """Subtract an ended disposable."""
        # Ignore earlier disposables, which the collector may free at any moment: they do not belong to this
        # run.
        if record.serial > self._newest_before:
            self._deaths += 1
            self._bytes_alive -= record.nbytes

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Ignore scopes."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Ignore scopes."""

    def _look_if_free(self, newest: Record) -> None:
        births = self._births
        stride = max(births // _STRIDE_DIVISOR, 1)
        # Use uneven strides: even ones could coincide with the program's own steps, and always see the same
        # point of a step.
        self._next_births = births + stride + int(stride * (len(self.looks) * _GOLDEN_RATIO % 1))
        is_cheap = self._cost <= _FIXED_BUDGET + births * _BUDGET_PER_CREATION
        if is_cheap or births >= self._look_births * _ALWAYS_AFTER:
            self._take_look(newest)

    def _take_look(self, newest: Record) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        try:
            self._measure(newest)
        except (AttributeError, RuntimeError):
            pass  # another thread is changing the objects: the next look finds them
        else:
            self._next_bytes = max(self._next_bytes, int(self._bytes_alive * self._growth))
        finally:
            self._is_looking = False

    def look(self, *, with_all_holders: bool = False) -> LeakReport:
        """Measure all living disposables, store the look, and return the report with growth so far."""
        return self._judged(*self._measure(with_all_holders=with_all_holders))

    def _measure(
        self, newest: Record | None = None, *, with_all_holders: bool = False
    ) -> tuple[LeakReport, int]:
        """Store a look, and return the report, where growth is not judged, and the moment.

        `newest` belongs to a disposable that is being created. The tracker stores it after this call.
        """
        with without_collection():
            return self._measured(newest, with_all_holders)

    def _alive(self, newest: Record | None) -> tuple[list[tuple[Record, Any]], int, int]:
        """Return all that is alive, its number from before the run, and its number without `newest`."""
        tracker = tracking.current.tracker
        alive = [] if tracker is None else tracker.alive()
        found = len(alive)
        if newest is not None and (x := newest()) is not None:
            alive.append((newest, x))
        return alive, bisect_right(alive, self._since.serial, key=serial_of), found

    def _measured(self, newest: Record | None, with_all_holders: bool) -> tuple[LeakReport, int]:
        alive, before, found = self._alive(newest)
        items = alive[before:]
        self._find_lasting(items)
        report = report_of(items, self._since, alive[:before], self._lasting)
        weight = report.weight
        self._look_births = self._births
        self._cost += _LOOK + before + sum([row.count + row.op_count for row in report.rows])
        at = time.perf_counter_ns() - self._began
        heaviest = sorted(report.rows, key=lambda row: -row.weight)[:MAX_LINES]
        self.has_all_lines = self.has_all_lines and len(heaviest) == len(report.rows)
        weights = {row.site: row.weight for row in heaviest}
        self.looks.append(Look(at, self._births, self._deaths, weight, weights))
        self._note_heights(heaviest, report, at)
        self._growths.clear()
        if weight >= self._weight:
            self._weight, self.highest, self._highest_at = weight, report, at
        if len(self.looks) > _MAX_LOOKS:
            half = len(self.looks) // 2
            self.looks[:half] = self.looks[:half:2]
        is_other = weight > 2 * self._searched_weight or self._births > 2 * self._searched_births
        is_enough = weight > _LEAST_SEARCHED or (weight and self._births >= _FEWEST_SEARCHED)
        if with_all_holders or (is_other and is_enough):
            self._searched_weight = weight
            self._searched_births = self._births
            most = MAX_REFERENCES if with_all_holders else _MAX_REFERENCES
            judged = self._judged(report, at)
            # Searches are few, and their cost depends on the heap, so it is not counted.
            # Nothing holds the newest one yet.
            report = with_holders(judged, alive[before:found], Effort(most), in_libraries=with_all_holders)
            for row in report.rows:
                if row.holder or (row.followed_count and row.site not in self._holders):
                    self._note_holder(row, at)
        return report, at

    def _note_heights(self, rows: list[LeakRow], report: LeakReport, at: int) -> None:
        """Record for each line the moments after which it never held as much."""
        for row in rows:
            if not row.weight:
                continue
            heights = self._heights.setdefault(row.site, [])
            while heights and heights[-1].row.weight <= row.weight:
                heights.pop()
            heights.append(_Height(at, row, report))
            if len(heights) > _MAX_HEIGHTS:
                # Drop the one with the least drop after it. The highest and the last one stay.
                drops = [a.row.weight / b.row.weight for a, b in pairwise(heights[1:])]
                del heights[1 + drops.index(min(drops))]

    def _note_holder(self, row: LeakRow, at: int) -> None:
        found = self._holders.setdefault(row.site, [])
        found.append((at, row))
        if len(found) > _MAX_FOUND:
            del found[1]

    def _with_holder_of(self, row: LeakRow, at: int) -> LeakRow:
        """Return `row` with the holder that the last search up to the moment `at` found."""
        found = self._holders.get(row.site, [])
        before = next((before for found_at, before in reversed(found) if found_at <= at), None)
        if row.holder or before is None:
            return row
        return replace(
            row,
            holder=before.holder,
            held_count=before.held_count,
            searched_count=before.searched_count,
            followed_count=before.followed_count,
        )

    def _find_lasting(self, items: list[tuple[Record, Any]]) -> None:
        """Find the lines whose results are inputs of their next results: hidden states, running sums.

        The operation that computed a tensor is freed with the tensor, unless a later tensor depends on it. If
        two lines keep one graph, such as the last loss and the hidden state, the report assigns the graph to
        the hidden state.
        """
        for site, (record, op) in list(self._last.items()):
            if _has_gone(record, items):
                if op() is None:
                    self._lasting.discard(site)
                else:
                    self._lasting.add(site)
                del self._last[site]
        for record, x in reversed(items[-_MAX_LAST:]):
            site = line_of(record)
            if site not in self._last:
                made_by = last_op_of(x)
                if made_by is not None:
                    self._last[site] = record, ref(made_by)

    def high_water_mark(self) -> tuple[LeakReport, float] | None:
        """Return the report of the high-water mark, with growth up to then, and its time in seconds."""
        if self.highest is None:
            return None
        return self._judged(self.highest, self._highest_at), self._highest_at / 1e9

    def at_most_of(self, growth: Growth) -> tuple[LeakReport, float]:
        """Return the report of the moment at which the growing line held most, and its time in seconds."""
        return self._judged(growth.height.report, growth.height.at), growth.height.at / 1e9

    def growing(self) -> dict[Site, Growth]:
        """Return the growth of each line whose memory grew throughout, largest first.

        A line is judged up to the end of the run, or up to the moment at which its memory was freed, if the
        line kept memory for at least half of the run.
        """
        found = [(site, growth) for site in self._heights if (growth := self._growth_of(site)) is not None]
        return dict(sorted(found, key=lambda item: -item[1].rise.amount))

    def chart(self, report: Report) -> str:
        """Return a chart of kept memory over time as HTML, with the first lines of `report`."""
        rows = report.rows if isinstance(report, LeakReport) else ()
        parts = [
            Curve(str(row.site), [(look.at / 1e9, look.weights.get(row.site, 0)) for look in self.looks])
            for row in rows[:_MAX_CURVES]
            if row.weight
        ]
        return chart_of(Curve("all", [(look.at / 1e9, look.weight) for look in self.looks]), parts)

    def _growth_of(self, site: Site) -> Growth | None:
        if site not in self._growths:
            self._growths[site] = self._growth_until_now(site)
        return self._growths[site]

    def _growth_until_now(self, site: Site) -> Growth | None:
        looks = self.looks
        for height in reversed(self._heights.get(site, [])):
            is_at_the_end = looks[-1].weights.get(site, 0) * _DROP >= height.row.weight
            # Up to the last moment before the memory was freed. That is later than the moment at which the
            # line held most, if the line stopped growing before.
            until = bisect_right(looks, height.at, key=_at)
            until = max(
                [
                    n
                    for n, look in enumerate(looks, 1)
                    if look.weights.get(site, 0) * _DROP >= height.row.weight
                ],
                default=until,
            )
            weights = [look.weights.get(site, 0) for look in looks[:until]]
            first = next((n for n, weight in enumerate(weights) if weight), None)
            if first is None:  # its looks were dropped
                continue
            # The line may have kept other memory at the beginning, such as that of an evaluation.
            last_zero = max([n for n, weight in enumerate(weights) if not weight], default=0)
            for begin in dict.fromkeys((first, max(first, last_zero + 1))):
                if not is_at_the_end and _part_of(looks, begin, until - 1) < _LEAST_PART_FREED:
                    continue
                rise = _rise_of(height.row, looks[:until], begin)
                if rise is not None:
                    return Growth(rise, height, is_at_the_end)
        return None

    def _judged(self, report: LeakReport, at: int) -> LeakReport:
        """Return `report`, which is of the moment `at`, with the growth of its lines over the run."""
        rows = []
        for row in report.rows:
            growth = self._growth_of(row.site) if row.weight else None
            # What is left of a line whose memory was freed before does not grow.
            is_growing = growth is not None and (growth.is_at_the_end or at <= growth.height.at)
            rise = 0 if growth is None else growth.rise.amount
            if not row.weight:
                is_growing = row.is_growing
            rows.append(
                replace(
                    self._with_holder_of(row, at),
                    is_growing=is_growing,
                    risen=rise if is_growing else 0,
                    count_per_round=row.count_per_round if is_growing else 0.0,
                    bytes_per_round=row.bytes_per_round if is_growing else 0.0,
                )
            )
        return replace(report, rows=in_order(rows))

    def _at_moment(self, newest: Record) -> None:
        self._print_report(newest)
        self._next_moment = self._next_report

    def _print_report(self, newest: Record) -> None:
        if self._is_looking or self._every is None:
            return
        now = newest.created_at
        self._next_report = now + self._every
        self._is_looking = True
        try:
            report = self._judged(*self._measure(newest, with_all_holders=True))
        except (AttributeError, RuntimeError):
            return
        finally:
            self._is_looking = False
        self._tell(f"\nAfter {(now - self._began) / 1e9:.3g} s: {report}")


def _has_gone(record: Record, items: list[tuple[Record, Any]]) -> bool:
    """Return whether the disposable of `record` was freed, or only its library keeps it, such as a graph."""
    place = bisect_left(items, record.serial, key=serial_of)
    if place == len(items) or items[place][0] is not record:
        return True
    (count,) = reference_counts(items[place : place + 1])
    return is_kept_by_library(items[place][1], count)


# A line's memory was freed if the line holds less than this part of it afterwards.
_DROP = 2
# Growth needs at least this many looks, over at least this fraction of the run.
FEWEST_LOOKS = 8
_LEAST_PART = 2 / 5
# If the memory was freed before the end, growth needs this fraction of the run: results that a phase of a
# program gathers, such as an evaluation, are no leak.
_LEAST_PART_FREED = 1 / 2
# Possible growth is a leak if at least this many disposables are left, from all parts of the run.
_FEWEST_LEFT = 3
_OUTLIERS = 6
# The end of the run is its last 1 / 16.
_LAST_PART = 16


class Rise(NamedTuple):
    """The growth of the weight that a line kept."""

    amount: int
    #: Whether the weight rose in three of the four parts, or only in two, of which one is late.
    is_steady: bool
    is_possible: bool


NO_RISE = Rise(0, False, False)


def risen(looks: list[Look], site: Site, since: int = 0) -> Rise | None:
    """Return the growth of the least weight that `site` kept since a look; None for too few looks.

    The run is split into four parts, from the first look in which the line kept something. The function
    compares the least weight of each part and of the end, to ignore memory that each step creates and
    frees. Growth is steady if three of the four differences are a twelfth of the total or more.
    """
    first = next((n for n in range(since, len(looks)) if site in looks[n].weights), None)
    if first is None or len(looks) - first < FEWEST_LOOKS:
        return None
    # Measure time by the number of ends, which grows in a loop but not while data and models are built. If
    # few disposables end, measure it by the number of creations.
    is_by_deaths = looks[-1].deaths * 4 >= looks[-1].births
    clock = [look.deaths if is_by_deaths else look.births for look in looks]
    begin, end = clock[first], clock[-1]
    if end == begin:
        return None
    if _part_of(looks, first, len(looks) - 1) < _LEAST_PART:
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
    # Use a low quantile, not the minimum: a look may assign a graph to another line that keeps it too.
    floors = [sorted(part)[len(part) // _OUTLIERS] for part in parts]
    total = floors[-1] - floors[0]
    least = max(total / 12, 1)
    steps = [later - earlier for earlier, later in pairwise(floors)]
    rises = [step >= least for step in steps]
    if total <= 0 or min(steps) < -least:
        return NO_RISE
    return Rise(total, sum(rises) >= 3, sum(rises) == 2 and any(rises[2:]))


def _part_of(looks: list[Look], first: int, last: int) -> float:
    """Return which part of the run passed from the look `first` to the look `last`.

    Time is the number of creations or of ends, whichever gives more: another phase of the run may have
    created and freed many.
    """
    begin, end = looks[first], looks[last]
    births = (end.births - begin.births) / max(looks[-1].births - looks[0].births, 1)
    return max(births, (end.deaths - begin.deaths) / max(looks[-1].deaths - looks[0].deaths, 1))


def _rise_of(row: LeakRow, looks: list[Look], since: int) -> Rise | None:
    """Return the growth of the line of `row`, which is of its highest moment, or None if it did not grow.

    With too few looks, the moments at which its living disposables were created decide.
    """
    rise = risen(looks, row.site, since)
    if rise is None:
        return Rise(row.weight, True, True) if row.is_growing else None
    is_left = rise.is_possible and row.is_growing and row.count >= _FEWEST_LEFT
    return rise if rise.is_steady or is_left else None


def format_lines(lines: list[tuple[Site, int]]) -> str:
    """Return growing lines as text."""
    return ", ".join([f"{site} ({format_bytes(weight)})" for site, weight in lines])


def _at(look: Look) -> int:
    return look.at
