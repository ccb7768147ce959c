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
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from scopes.core.foreign import last_op_of
from scopes.tracking import tracking
from scopes.tracking.holders import MAX_REFERENCES, Effort
from scopes.tracking.leaks import LeakReport, Snapshot, in_order, line_of, report_of, with_holders
from scopes.tracking.pages import Curve, chart_of
from scopes.tracking.records import Record, serial_of
from scopes.tracking.reports import Report
from scopes.tracking.sites import Site
from scopes.tracking.sizes import format_bytes

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
_MAX_LINES = 16
_MAX_LOOKS = 512
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
        self._holders: dict[Site, str] = {}
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
        self._tell = _to_stderr if tell is None else tell
        self._next_report = sys.maxsize if self._every is None else self._began + self._every

    def begin(self) -> None:
        """Start listening. Tracking must be on."""
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
        """Take a look if one is due."""
        births = self._births = self._births + 1
        nbytes = self._bytes_alive = self._bytes_alive + record.nbytes
        if births >= self._next_births or nbytes > self._next_bytes:
            self._look_if_free(record)
        if record.created_at >= self._next_report:
            self._print_report(record)

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
        if self._is_looking or not (is_cheap or births >= self._look_births * _ALWAYS_AFTER):
            return
        self._is_looking = True
        try:
            self.look(newest)
        except (AttributeError, RuntimeError):
            pass  # another thread is changing the objects: the next look finds them
        else:
            self._next_bytes = max(self._next_bytes, int(self._bytes_alive * GROWTH))
        finally:
            self._is_looking = False

    def look(self, newest: Record | None = None, *, with_all_holders: bool = False) -> LeakReport:
        """Measure all living disposables, store the look, and return the report with growth so far.

        `newest` belongs to a disposable that is being created. The tracker stores it after this call.
        """
        tracker = tracking.current.tracker
        alive = [] if tracker is None else tracker.alive()
        found = len(alive)
        if newest is not None and (x := newest()) is not None:
            alive.append((newest, x))
        before = bisect_right(alive, self._since.serial, key=serial_of)
        items = alive[before:]
        self._find_lasting(items)
        report = report_of(items, self._since, alive[:before], self._lasting)
        weight = report.weight
        self._look_births = self._births
        self._cost += _LOOK + before + sum([row.count + row.op_count for row in report.rows])
        at = time.perf_counter_ns() - self._began
        heaviest = sorted(report.rows, key=lambda row: -row.weight)[:_MAX_LINES]
        weights = {row.site: row.weight for row in heaviest}
        self.looks.append(Look(at, self._births, self._deaths, weight, weights))
        if weight >= self._weight:
            self._weight, self.highest, self._highest_at = weight, report, self.looks[-1].at
        if len(self.looks) > _MAX_LOOKS:
            half = len(self.looks) // 2
            self.looks[:half] = self.looks[:half:2]
        is_other = weight > 2 * self._searched_weight or self._births > 2 * self._searched_births
        is_enough = weight > _LEAST_SEARCHED or (weight and self._births >= _FEWEST_SEARCHED)
        if with_all_holders or (is_other and is_enough):
            self._searched_weight = max(weight, self._searched_weight)
            self._searched_births = self._births
            most = MAX_REFERENCES if with_all_holders else _MAX_REFERENCES
            judged = self._judged(report, len(self.looks))
            # Searches are few, and their cost depends on the heap, so it is not counted.
            # Nothing holds the newest one yet.
            report = with_holders(judged, alive[before:found], Effort(most), in_libraries=with_all_holders)
            self._holders.update({row.site: row.holder for row in report.rows if row.holder})
        return self._judged(report, len(self.looks))

    def _find_lasting(self, items: list[tuple[Record, Any]]) -> None:
        """Find the lines whose results are inputs of their next results: hidden states, running sums.

        The operation that computed a tensor is freed with the tensor, unless a later tensor depends on it. If
        two lines keep one graph, such as the last loss and the hidden state, the report assigns the graph to
        the hidden state.
        """
        for site, (record, op) in list(self._last.items()):
            if record() is None:
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
        until = next(n for n, look in enumerate(self.looks, 1) if look.at >= self._highest_at)
        return self._judged(self.highest, until), self._highest_at / 1e9

    def chart(self, report: Report) -> str:
        """Return a chart of kept memory over time as HTML, with the first lines of `report`."""
        rows = report.rows if isinstance(report, LeakReport) else ()
        parts = [
            Curve(str(row.site), [(look.at / 1e9, look.weights.get(row.site, 0)) for look in self.looks])
            for row in rows[:_MAX_CURVES]
            if row.weight
        ]
        return chart_of(Curve("all", [(look.at / 1e9, look.weight) for look in self.looks]), parts)

    def _judged(self, report: LeakReport, until: int) -> LeakReport:
        """Return `report` with the growth of each line over the first `until` looks."""
        looks = self.looks[:until]
        now, then = self.looks[-1], looks[-1]
        # Memory that was kept early in the run and freed has not grown throughout.
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

    def _print_report(self, newest: Record) -> None:
        if self._is_looking or self._every is None:
            return
        now = newest.created_at
        self._next_report = now + self._every
        self._is_looking = True
        try:
            report = self.look(newest, with_all_holders=True)
        except (AttributeError, RuntimeError):
            return
        finally:
            self._is_looking = False
        self._tell(f"\nAfter {(now - self._began) / 1e9:.3g} s: {report}")


def _to_stderr(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


# Growth needs at least this many looks, over at least this fraction of the run.
_FEWEST_LOOKS = 8
_LEAST_PART = 1 / 2
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


def risen(looks: list[Look], site: Site) -> Rise | None:
    """Return the growth of the least weight that `site` kept over the looks; None for too few looks.

    The run is split into four parts, from the first look in which the line kept something. The function
    compares the least weight of each part and of the end, to ignore memory that each step creates and
    frees. Growth is steady if three of the four differences are a twelfth of the total or more.
    """
    first = next((n for n, look in enumerate(looks) if site in look.weights), None)
    if first is None or len(looks) - first < _FEWEST_LOOKS:
        return None
    # Measure time by the number of ends, which grows in a loop but not while data and models are built. If
    # few disposables end, measure it by the number of creations.
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
    # Use a low quantile, not the minimum: a look may assign a graph to another line that keeps it too.
    floors = [sorted(part)[len(part) // _OUTLIERS] for part in parts]
    total = floors[-1] - floors[0]
    least = max(total / 12, 1)
    steps = [later - earlier for earlier, later in pairwise(floors)]
    rises = [step >= least for step in steps]
    if total <= 0 or min(steps) < -least:
        return NO_RISE
    return Rise(total, sum(rises) >= 3, sum(rises) == 2 and any(rises[2:]))


def leaking(report: LeakReport, threshold: int) -> list[tuple[Site, int]]:
    """Return the growing lines of `report` that grew by `threshold` bytes or more, with their growth."""
    return [(row.site, row.risen) for row in report.rows if row.is_growing and row.risen >= threshold]


def format_lines(lines: list[tuple[Site, int]]) -> str:
    """Return growing lines as text."""
    return ", ".join([f"{site} ({format_bytes(weight)})" for site, weight in lines])
