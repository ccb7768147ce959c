"""What is alive, by the line that created it: leaks since a moment, survivors in a scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scopes import _tracking as tracking
from scopes._scoped import Scoped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scopes._records import Record, Tracker
    from scopes._sites import Site

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
        """Whether more and more are left: the oldest and the newest were made far apart."""
        return self.count_per_round > 0


@dataclass(frozen=True, slots=True)
class LeakReport:
    """What is alive, by creation line: what grows first, then the most bytes first."""

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
    tracker = _tracker()
    start = Snapshot(0, {}) if since is None else since
    return report_of([item for item in tracker.alive() if item[0].serial > start.serial], start)


def survivors(members: Iterable[object]) -> LeakReport:
    """Return what is known of `members`, by creation line."""
    wanted = {id(x) for x in members}
    return report_of([item for item in _tracker().alive() if item[0].key in wanted], Snapshot(0, {}))


def _tracker() -> Tracker:
    tracker = tracking.current.tracker
    if tracker is None:
        raise RuntimeError(NOT_TRACKING)
    return tracker


# What grows was made all along: from the oldest to the newest lies so large a part of all that was made.
_SPREAD = 0.1


def report_of(items: list[tuple[Record, Any]], since: Snapshot) -> LeakReport:
    """Return the report of `items`, oldest first, made after `since`."""
    tracker = _tracker()
    made = max(tracker.serial - since.serial, 1)
    rounds = [count - since.rounds.get(path, 0) for path, count in tracker.rounds.items()]
    most = max([1, *rounds])
    groups: dict[Site, list[tuple[Record, int]]] = {}
    seen: set[int] = set()
    own = [_bytes_of([x._footprint()], seen) if isinstance(x, Scoped) else 0 for _, x in items]
    for (record, x), nbytes in zip(items, own, strict=True):
        kept = _bytes_of(x._keeps(seen), seen) if isinstance(x, Scoped) else 0
        groups.setdefault(record.site, []).append((record, nbytes + kept))
    rows = []
    for site, group in groups.items():
        count, nbytes = len(group), sum([n for _, n in group])
        first, last = group[0][0], group[-1][0]
        is_growing = count > 1 and (last.serial - first.serial) >= _SPREAD * made
        share = 1 / most if is_growing else 0.0
        kinds = tuple(sorted({record.kind for record, _ in group}))
        rows.append(LeakRow(site, kinds, count, nbytes, count * share, nbytes * share, first.scope))
    rows.sort(key=lambda row: (not row.is_growing, -row.nbytes, -row.count))
    return LeakReport(tuple(rows), most)


def _bytes_of(buffers: Iterable[tuple[int, int]], seen: set[int]) -> int:
    """Return the bytes of those of `buffers` that are not in `seen`, and put them there."""
    nbytes = 0
    for key, n in buffers:
        if key not in seen:
            seen.add(key)
            nbytes += n
    return nbytes
