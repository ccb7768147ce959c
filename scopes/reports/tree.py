"""The tree of scopes: creations, living disposables and peak memory of each path of names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scopes._shared.naming import set_module
from scopes.reports.leaks import NOT_TRACKING
from scopes.reports.tables import Cell, Report, Table, figure, size
from scopes.tracking import tracking
from scopes.tracking.records import Place


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class ScopeRow:
    """All scopes of one path of names, including the scopes inside."""

    #: The names, outermost first; empty for the root, which includes disposables outside all scopes.
    path: tuple[str, ...]
    #: How many have ended, and how long they were open in total, in seconds.
    rounds: int
    seconds: float
    #: The number of disposables created there, and of those still alive.
    created_count: int
    alive_count: int
    #: The bytes of the created disposables, and of those still alive.
    created_bytes: int
    alive_bytes: int
    #: The peak of these living bytes.
    peak_bytes: int
    #: The scopes inside, largest peak first.
    inner: tuple[ScopeRow, ...]

    def walk(self) -> Iterator[ScopeRow]:
        """Yield this row and all rows inside it, outer rows first.

        Examples
        --------
        >>> import scopes
        >>> with scopes.track(), scopes.new_dispose_scope("epoch"):
        ...     with scopes.new_dispose_scope("step"):
        ...         pass
        ...     [row.path for row in scopes.scope_tree().root.walk()]
        [(), ('epoch',), ('epoch', 'step')]
        """
        yield self
        for row in self.inner:
            yield from row.walk()

    def to_dict(self) -> dict[str, Any]:
        """Return the row and the rows inside as plain data."""
        return {
            "path": list(self.path),
            "rounds": self.rounds,
            "seconds": self.seconds,
            "created_count": self.created_count,
            "alive_count": self.alive_count,
            "created_bytes": self.created_bytes,
            "alive_bytes": self.alive_bytes,
            "peak_bytes": self.peak_bytes,
            "inner": [row.to_dict() for row in self.inner],
        }

    def _cells(self) -> tuple[Cell, ...]:
        name = f"{'  ' * len(self.path)}{self.path[-1]}" if self.path else "everything"
        return (
            Cell(name, " > ".join(self.path)),
            figure(self.rounds),
            Cell(_duration(self.seconds), self.seconds),
            figure(self.created_count),
            size(self.created_bytes),
            size(self.peak_bytes),
            figure(self.alive_count),
            size(self.alive_bytes),
        )


_HEADINGS = (
    ("scope", False),
    ("rounds", True),
    ("time", True),
    ("created", True),
    ("bytes", True),
    ("peak", True),
    ("alive", True),
    ("bytes alive", True),
)


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class ScopeTree(Report):
    """The scopes since tracking began, as a tree of their names: see ``scope_tree``.

    ``str(tree)`` is a table. ``print()`` writes the table with ``rich`` if it is installed. ``to_html()``
    returns a page, ``to_dict()`` plain data. Notebooks show it as a table.
    """

    root: ScopeRow

    def __getitem__(self, path: str | tuple[str, ...]) -> ScopeRow:
        """Return the row of a path of names, or of the name of an outermost scope."""
        wanted = (path,) if isinstance(path, str) else path
        for row in self.root.walk():
            if row.path == wanted:
                return row
        known = ", ".join(str(row.path) for row in self.root.walk())
        raise KeyError(f"no scope {wanted!r} was open while tracking was on; there are {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as plain data, for JSON.

        Examples
        --------
        >>> import scopes
        >>> with scopes.track(), scopes.new_dispose_scope("step"):
        ...     tree = scopes.scope_tree().to_dict()
        >>> tree["inner"][0]["path"]
        ['step']
        """
        return self.root.to_dict()

    def _table(self) -> Table:
        rows = list(self.root.walk())
        title = "scopes; each row includes the scopes inside it"
        return Table(title, _HEADINGS, [row._cells() for row in rows], "and {} more scopes")


@set_module("scopes")
def scope_tree() -> ScopeTree:
    """Return the tree of scopes since tracking began: counts, times, creations and kept memory.

    Scopes with the same path of names are one row, such as a loop's 10,000 "step" scopes. Bytes are the
    memory of disposables at their creation; shared memory counts once. ``leaks`` also includes memory that
    only a graph keeps.

    Raises
    ------
    RuntimeError
        If tracking is off.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     for _ in range(1_000):
    ...         with scopes.new_dispose_scope("step"):
    ...             x = tensor.ones((250,))
    ...     row = scopes.scope_tree()["step"]
    >>> row.rounds, row.created_count, row.created_bytes, row.peak_bytes, row.alive_bytes
    (1000, 1000, 1000000, 1000, 0)
    """
    tracker = tracking.current.tracker
    if tracker is None:
        raise RuntimeError(NOT_TRACKING)
    return ScopeTree(_row_of(tracker.root, tracker.elapsed()))


def _row_of(place: Place, nanoseconds: int) -> ScopeRow:
    inner = sorted(
        [_row_of(within, within.nanoseconds) for within in list(place.inner.values())],
        key=lambda row: (-row.peak_bytes, -row.created_count),
    )
    return ScopeRow(
        path=place.path,
        rounds=place.rounds,
        seconds=nanoseconds / 1e9,
        created_count=place.created + sum(row.created_count for row in inner),
        alive_count=place.alive + sum(row.alive_count for row in inner),
        created_bytes=place.bytes_created,
        alive_bytes=place.bytes_alive,
        peak_bytes=place.bytes_peak,
        inner=tuple(inner),
    )


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
