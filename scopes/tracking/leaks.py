"""What is alive, by the line that created it: leaks since a moment, survivors in a scope."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scopes.core.foreign import footprint_of, keeps_of
from scopes.tracking import tracking
from scopes.tracking.records import serial_of
from scopes.tracking.reports import Cell, Report, Table, figure, size, words
from scopes.tracking.sizes import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scopes.tracking.records import Record, Tracker
    from scopes.tracking.sites import Site

NOT_TRACKING = (
    "tracking is off, so nobody knows which line created what. Run the code inside `with scopes.track():`, "
    "or the program with DISPOSESCOPE_TRACK=1, or as `python -m scopes run script.py`"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of tracking: ``leaks(since=snapshot)`` tells what was created later and is alive."""

    #: How many disposables had been created.
    serial: int
    #: How often scopes had ended, by their path of names.
    rounds: dict[tuple[str, ...], int]

    @property
    def closings(self) -> int:
        """How often scopes had ended in all."""
        return sum(self.rounds.values())


@dataclass(frozen=True, slots=True)
class LeakRow:
    """What one line created that is alive."""

    #: The user's lines, the innermost first.
    site: Site
    #: The names of the types.
    kinds: tuple[str, ...]
    #: How many are alive.
    count: int
    #: The memory that they keep: buffers, and what their graphs keep for backward. Each buffer counts once:
    #: for the oldest tensor over it, else for the oldest whose graph keeps it.
    nbytes: int
    #: How many of them each round has left, and how many bytes; 0 where not every part of the run left some.
    count_per_round: float
    bytes_per_round: float
    #: The names of the scopes that were open around the oldest, the outermost first.
    scope: tuple[str, ...]

    @property
    def is_growing(self) -> bool:
        """Whether more and more are left: they were made all along, and not at one time."""
        return self.count_per_round > 0

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data; bytes are whole numbers."""
        lines = [
            {"file": line.file, "line": line.number, "function": line.function, "text": line.text}
            for line in self.site.lines
        ]
        return {
            "lines": lines,
            "kinds": list(self.kinds),
            "count": self.count,
            "bytes": self.nbytes,
            "is_growing": self.is_growing,
            "count_per_round": self.count_per_round,
            "bytes_per_round": self.bytes_per_round,
            "scope": list(self.scope),
        }

    def _cells(self) -> tuple[Cell, ...]:
        growth = f"+{self.count_per_round:.3g}, {format_bytes(round(self.bytes_per_round))}"
        return (
            figure(self.count),
            size(self.nbytes),
            Cell(growth if self.is_growing else "", self.bytes_per_round),
            words(", ".join(self.kinds)),
            words(" > ".join(self.scope)),
            Cell(str(self.site), str(self.site), self.site.text),
        )


_HEADINGS = (
    ("alive", True),
    ("bytes", True),
    ("each round", True),
    ("type", False),
    ("in scope", False),
    ("created by", False),
)


@dataclass(frozen=True, slots=True)
class LeakReport(Report):
    """What is alive, by creation line: what grows first, then the most bytes first.

    ``str(report)`` is a table, ``print()`` writes one by ``rich`` where that is installed, ``to_html()``
    returns a page, ``to_dict()`` plain data; notebooks show it as a table.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     print(scopes.leaks())
    nothing is alive that was created while tracking was on
    """

    rows: tuple[LeakRow, ...]
    #: How many rounds there were: how often the scope that ended most often has ended; at least 1.
    rounds: int

    @property
    def count(self) -> int:
        """How many are alive in all."""
        return sum(row.count for row in self.rows)

    @property
    def nbytes(self) -> int:
        """The memory that they keep, in bytes."""
        return sum(row.nbytes for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON.

        Examples
        --------
        >>> import scopes
        >>> with scopes.track():
        ...     scopes.leaks().to_dict()
        {'count': 0, 'bytes': 0, 'rounds': 1, 'rows': []}
        """
        rows = [row.to_dict() for row in self.rows]
        return {"count": self.count, "bytes": self.nbytes, "rounds": self.rounds, "rows": rows}

    def _table(self) -> Table:
        if not self.rows:
            return Table("nothing is alive that was created while tracking was on", _HEADINGS, ())
        many, rounds = len(self.rows), self.rounds
        title = (
            f"{self.count:,} alive, {format_bytes(self.nbytes)}, created by {many:,} line{'s' * (many != 1)} "
            f"in {rounds:,} round{'s' * (rounds != 1)}"
        )
        return Table(title, _HEADINGS, [row._cells() for row in self.rows], "and {} more lines")


def snapshot() -> Snapshot:
    """Return this moment, for ``leaks(since=...)``.

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
    return Snapshot(tracker.serial, dict(tracker.rounds))


def leaks(since: Snapshot | None = None) -> LeakReport:
    """Return what was created while tracking was on, after `since`, and is alive: by creation line.

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
    alive = _tracker().alive()
    number = bisect_right(alive, start.serial, key=serial_of)
    return report_of(alive[number:], start, alive[:number])


def survivors(members: Iterable[object]) -> LeakReport:
    """Return what is known of `members`, by creation line."""
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
    items: list[tuple[Record, Any]], since: Snapshot, others: Iterable[tuple[Record, Any]] = ()
) -> LeakReport:
    """Return the report of `items`, oldest first; the growth is that since `since`.

    What graphs keep and is the memory of one of `others` is not put to `items`.
    """
    tracker = _tracker()
    rounds = [count - since.rounds.get(path, 0) for path, count in tracker.rounds.items()]
    most = max([1, *rounds])
    closings, made = tracker.closings - since.closings, tracker.serial - since.serial
    groups: dict[Site, list[tuple[Record, int]]] = {}
    for (record, _), nbytes in zip(items, bytes_of_each(items, others), strict=True):
        groups.setdefault(record.site, []).append((record, nbytes))
    rows = []
    for site, group in groups.items():
        records = [record for record, _ in group]
        count, nbytes = len(group), sum([n for _, n in group])
        if closings > 1:
            is_growing = is_spread_out([record.closings - since.closings for record in records], closings)
        else:  # no rounds to go by: the order in which things were created, if that is a run of some length
            is_growing = made >= _RUN and is_spread_out([r.serial - since.serial - 1 for r in records], made)
        share = 1 / most if is_growing else 0.0
        kinds = tuple(sorted({record.kind for record in records}))
        rows.append(LeakRow(site, kinds, count, nbytes, count * share, nbytes * share, records[0].scope))
    rows.sort(key=lambda row: (not row.is_growing, -row.nbytes, -row.count))
    return LeakReport(tuple(rows), most)


_RUN = 100


def is_spread_out(moments: list[int], until: int) -> bool:
    """Tell whether `moments`, counted from 0, lie all along the way to `until`: in 3 of its 4 parts.

    Of two or three moments, and on a way of so many steps, in two of as many parts.
    """
    parts = min(len(moments), 4, until)
    if parts < 2:
        return False
    return len({min(moment * parts // until, parts - 1) for moment in moments}) >= (3 if parts == 4 else 2)


def bytes_of_each(items: Iterable[tuple[Record, Any]], others: Iterable[tuple[Record, Any]]) -> list[int]:
    """Return how much memory each of `items` keeps, oldest first; what is that of one of `others` is not.

    Who lies over memory has it, rather than who keeps it for a graph.
    """
    seen: set[int] = set()
    for _, x in others:
        _own_bytes_of(x, seen)
    own = [(x, _own_bytes_of(x, seen)) for _, x in items]
    return [n + _bytes_of(keeps_of(x, seen), seen) for x, n in own]


def _own_bytes_of(x: object, seen: set[int]) -> int:
    return _bytes_of([footprint_of(x)], seen)


def _bytes_of(buffers: Iterable[tuple[int, int]], seen: set[int]) -> int:
    """Return the bytes of those of `buffers` that are not in `seen`, and put them there."""
    nbytes = 0
    for key, n in buffers:
        if key not in seen:
            seen.add(key)
            nbytes += n
    return nbytes
