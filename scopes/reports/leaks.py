"""Reports of living disposables by creation line: leaks since a snapshot, survivors in a scope."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scopes._shared.naming import set_module
from scopes.core.scope import footprint_of, is_kept_by_library, keeps_of
from scopes.reports.leak_report import LeakReport, LeakRow, in_order
from scopes.tracking import tracking
from scopes.tracking.counts import reference_counts
from scopes.tracking.holders import MAX_REFERENCES, Effort, Holder, holders_of
from scopes.tracking.records import Record, Tracker, serial_of
from scopes.tracking.sites import Site
from scopes.tracking.unnamed import explain_unnamed

if TYPE_CHECKING:
    from scopes.reports.downsampling import DisposableEvents

NOT_TRACKING = (
    "tracking is off, so the lines that created tensors are unknown. Run the code inside "
    "`with scopes.track():`, or the program with DISPOSESCOPE_TRACK=1, or as `disposescope run script.py`"
)


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of tracking. ``leaks(since=snapshot)`` reports living disposables created after it."""

    #: The number of disposables created so far.
    serial: int
    #: How many scopes had ended, by path of names.
    rounds: dict[tuple[str, ...], int]

    @property
    def closings(self) -> int:
        """How many scopes had ended in total."""
        return sum(self.rounds.values())


@set_module("scopes")
def snapshot() -> Snapshot:
    """Return a snapshot of tracking, for ``leaks(since=...)``.

    Raises
    ------
    RuntimeError
        If tracking is off.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     before = tensor.ones((2,))
    ...     start = scopes.snapshot()
    ...     after = tensor.ones((2,))
    ...     scopes.leaks(since=start).count
    1
    """
    tracker = _tracker()
    return Snapshot(tracking.newest_serial(tracker), dict(tracker.rounds))


@set_module("scopes")
def leaks(since: Snapshot | None = None) -> LeakReport:
    """Return living disposables created after `since` while tracking was on, by creation line.

    Raises
    ------
    RuntimeError
        If tracking is off.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     losses = []
    ...     for step in range(10):
    ...         with scopes.new_dispose_scope("step") as scope:
    ...             losses.append(scope.move_to_outer(tensor.ones((100,)) * step))
    ...     row = scopes.leaks().rows[0]
    >>> row.count, row.nbytes, row.count_per_round
    (10, 4000, 1.0)
    """
    start = Snapshot(0, {}) if since is None else since
    with without_collection():
        alive = _tracker().alive()
        number = bisect_right(alive, start.serial, key=serial_of)
        report = report_of(alive[number:], start, alive[:number])
        return with_holders(report, alive[number:], Effort(MAX_REFERENCES))


@contextmanager
def without_collection() -> Iterator[None]:
    """Run no garbage collection in the block, so that reference cycles stay as they are for a search."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def survivors(members: Iterable[object]) -> LeakReport:
    """Return the report of `members`, by creation line."""
    wanted = {id(x) for x in members}
    alive = _tracker().alive()
    others = [item for item in alive if item[0].key not in wanted]
    return report_of([item for item in alive if item[0].key in wanted], Snapshot(0, {}), others)


def _tracker() -> Tracker:
    tracker = tracking.current.tracker
    if tracker is None:
        raise RuntimeError(NOT_TRACKING)
    return tracker


def report_of(
    items: list[tuple[Record, Any]],
    since: Snapshot,
    others: Iterable[tuple[Record, Any]] = (),
    lasting: Container[Site] = (),
) -> LeakReport:
    """Return the report of `items`, which are sorted by age, with the growth since `since`.

    Memory of `others` is not counted, even if a graph of `items` keeps it. Memory that several graphs keep
    counts for the lines of `lasting` first.
    """
    tracker = _tracker()
    rounds = [count - since.rounds.get(path, 0) for path, count in tracker.rounds.items()]
    most = max([1, *rounds])
    closings, made = tracker.closings - since.closings, tracker.serial - since.serial
    groups: dict[Site, list[tuple[Record, Kept]]] = {}
    for (record, _), kept in zip(items, kept_by_each(items, others, lasting), strict=True):
        groups.setdefault(line_of(record), []).append((record, kept))
    rows = []
    for site, group in groups.items():
        records = [record for record, _ in group]
        count, nbytes = len(group), sum([kept.nbytes for _, kept in group])
        # Without rounds, only a long run shows growth.
        is_long = closings > 1 or made >= _RUN
        is_long = is_long or (made >= _SHORT_RUN and nbytes >= _MIN_BYTES and count >= _MIN_COUNT)
        # What a scope has created since the last scope ended, no round has left yet.
        left = [x for x in records if not x.scope or x.closings < tracker.closings]
        is_growing = is_long and is_created_throughout(left, since, closings, made)
        share = 1 / most if is_growing else 0.0
        kinds = tuple(sorted({record.kind for record in records}))
        op_count = sum([kept.op_count for _, kept in group])
        rows.append(
            LeakRow(
                site,
                kinds,
                count,
                nbytes,
                count * share,
                nbytes * share,
                records[0].scope,
                op_count,
                is_growing,
            )
        )
    return LeakReport(in_order(rows), most)


# The creations of a run that is long enough to show growth. In a shorter run, a line grows only if it left at
# least _MIN_COUNT disposables of _MIN_BYTES bytes in total.
_RUN, _SHORT_RUN = 100, 16
_MIN_COUNT, _MIN_BYTES = 8, 2**20


def is_created_throughout(
    disposables: Sequence[Record] | Sequence[DisposableEvents], since: Snapshot, closings: int, made: int
) -> bool:
    """Return whether `disposables` were created throughout the time since `since`.

    Time is the number of scopes that ended, `closings`, or without scopes the number of creations, `made`. It
    is not the clock, which also runs while the program waits.
    """
    if closings > 1:
        before = since.closings
        return is_spread_out([x.closings - before for x in disposables], closings)
    return is_spread_out([x.serial - since.serial - 1 for x in disposables], made)


def is_spread_out(moments: list[int], until: int) -> bool:
    """Return whether `moments` are in at least 3 of the 4 equal parts of the range from 0 to `until`.

    With two or three moments, or if `until` is 2 or 3, there are only as many parts, and 2 of them suffice.
    """
    parts = min(len(moments), 4, until)
    if parts < 2:
        return False
    return len({min(moment * parts // until, parts - 1) for moment in moments}) >= (3 if parts == 4 else 2)


class Kept(NamedTuple):
    """The memory and operations that one disposable keeps."""

    nbytes: int
    op_count: int


class Seen(set[int]):
    """Ids of counted objects. `held` keeps objects alive, so that their ids are not reused."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[object] = []


def kept_by_each(
    items: Sequence[tuple[Record, Any]], others: Iterable[tuple[Record, Any]], lasting: Container[Site] = ()
) -> list[Kept]:
    """Return the memory that each of `items` keeps, oldest first. Memory of `others` is not counted.

    Memory counts for a tensor on it first, then for a graph that keeps it: for lines of `lasting` first. What
    only a view or a graph keeps counts for the view, or for the tensor of the graph.
    """
    seen = Seen()
    for _, x in others:
        _sum_of([footprint_of(x)], seen)
    kept = [Kept(0, 0)] * len(items)
    counts = reference_counts(items)
    is_kept = [is_kept_by_library(x, count) for (_, x), count in zip(items, counts, strict=True)]
    for is_in_library in (False, True):
        order = [n for n in range(len(items)) if is_kept[n] is is_in_library]
        for n in order:
            kept[n] = _sum_of([footprint_of(items[n][1])], seen)
        order.sort(key=lambda n: line_of(items[n][0]) not in lasting)
        for n in order:
            more = _sum_of(keeps_of(items[n][1], seen), seen)
            kept[n] = Kept(kept[n].nbytes + more.nbytes, more.op_count)
    return kept


def holder_lines() -> tuple[dict[int, Site], dict[int, Site]]:
    """Return for each buffer the line of the oldest tensor on it, and of the oldest whose graph keeps it."""
    over: dict[int, Site] = {}
    graphs: dict[int, Site] = {}
    tracker = tracking.current.tracker
    for record, x in () if tracker is None else tracker.alive():
        own = footprint_of(x)[0]
        over.setdefault(own, record.site)
        for key, nbytes in keeps_of(x, Seen()):
            if nbytes is not None and key != own:
                graphs.setdefault(key, line_of(record))
    return over, graphs


def line_of(record: Record) -> Site:
    """Return the line that reports assign the disposable to."""
    return record.graph_site or record.site


def _sum_of(buffers: Iterable[tuple[int, int | None]], seen: Seen) -> Kept:
    """Return the sum of `buffers` that are not in `seen`, and add them to `seen`."""
    nbytes = op_count = 0
    for key, n in buffers:
        if n is None:  # an operation: `keeps_of` has added it to `seen`
            op_count += 1
        elif key not in seen:
            seen.add(key)
            nbytes += n
    return Kept(nbytes, op_count)


# The number of first rows whose holders are searched.
_MAX_HELD = 5
# A search during a run explains what has no name for growing lines with at least this many.
_FEW = 3


def with_holders(
    report: LeakReport, items: Iterable[tuple[Record, Any]], effort: Effort, *, in_libraries: bool = True
) -> LeakReport:
    """Return the `report` of `items` with the holders of its first rows."""
    wanted: dict[Site, list[Any]] = {row.site: [] for row in report.rows[:_MAX_HELD]}
    for record, x in items:
        objects = wanted.get(line_of(record))
        if objects is not None:
            objects.append(x)
    # While the program runs, what has no name may be an argument of the running call.
    explained = {row.site for row in report.rows if in_libraries or (row.is_growing and row.count >= _FEW)}
    found = holders_of(
        wanted, effort, in_libraries=in_libraries, explain=explain_unnamed, explained=explained
    )
    return replace(report, rows=tuple([_with_holder(row, found.get(row.site)) for row in report.rows]))


def _with_holder(row: LeakRow, holder: Holder | None) -> LeakRow:
    if holder is None:
        return row
    text, count, searched_count, followed_count = holder
    return replace(
        row, holder=text, held_count=count, searched_count=searched_count, followed_count=followed_count
    )
