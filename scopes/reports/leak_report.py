"""What a report of living disposables says: its rows, one for each creation line, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.reports.tables import Cell, Report, Table, figure, line, size, words
from scopes.tracking.sites import Line, Site

# The weight of a recorded operation, in bytes: about its memory in a graph of this library or PyTorch.
OP_BYTES = 256


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class LeakRow:
    """The living disposables that one line created."""

    #: The user's lines, innermost first.
    site: Site
    #: The names of the types.
    kinds: tuple[str, ...]
    #: The number alive.
    count: int
    #: The bytes that they keep: buffers, and memory that their graphs save for backward. Each buffer counts
    #: once: for the oldest tensor on it, else for the oldest tensor whose graph keeps it.
    nbytes: int
    #: The average number and bytes that a round (see `LeakReport.rounds`) left; 0 if the line does not grow.
    count_per_round: float
    bytes_per_round: float
    #: The path of the scope that owned the oldest one at its creation: names, outermost first.
    scope: tuple[str, ...]
    #: The number of recorded operations that their graphs keep, each counted once, as buffers are.
    op_count: int = 0
    #: Whether the line leaks: it created living disposables, or their memory grew, throughout the run.
    is_growing: bool = False
    #: The holder, as far as the garbage collector can find it: a path of references from one of your names.
    #: Or "a reference cycle: Node.me", "C++ (a backward graph)", or words for what has no name. Empty if
    #: there was no search, or it found nothing: see `followed_count`.
    holder: str = ""
    #: The growth of the least weight over the run, in bytes, if a history measured it. A graph's operation
    #: counts as 256.
    risen: int = 0
    #: How many living disposables the holder holds, and how many were looked for.
    held_count: int = 0
    searched_count: int = 0
    #: The number of references after which a search ended that found no holder; 0 without such a search.
    followed_count: int = 0

    @property
    def weight(self) -> int:
        """The weight that orders rows: their bytes, plus 256 for each operation of their graphs."""
        return self.nbytes + OP_BYTES * self.op_count

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data; bytes are whole numbers."""
        return {
            "lines": lines_of(self.site),
            "kinds": list(self.kinds),
            "count": self.count,
            "bytes": self.nbytes,
            "is_growing": self.is_growing,
            "count_per_round": self.count_per_round,
            "bytes_per_round": self.bytes_per_round,
            "scope": list(self.scope),
            "ops": self.op_count,
            "holder": self.holder,
            "held_count": self.held_count,
            "searched_count": self.searched_count,
            "followed_count": self.followed_count,
            "risen": self.risen,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LeakRow:
        """Return the row of which ``to_dict()`` returned `data`."""
        return cls(
            site=site_from(data["lines"]),
            kinds=tuple(data["kinds"]),
            count=data["count"],
            nbytes=data["bytes"],
            count_per_round=data["count_per_round"],
            bytes_per_round=data["bytes_per_round"],
            scope=tuple(data["scope"]),
            op_count=data["ops"],
            is_growing=data["is_growing"],
            holder=data["holder"],
            risen=data["risen"],
            held_count=data["held_count"],
            searched_count=data["searched_count"],
            followed_count=data["followed_count"],
        )

    def _cells(self) -> tuple[Cell, ...]:
        growth = "grows" if self.is_growing else ""
        if self.count_per_round:
            growth = f"+{self.count_per_round:.3g}, {format_bytes(round(self.bytes_per_round))}"
        held = f"held by {self.holder}{self._share()}" if self.holder else ""
        if self.followed_count and not self.holder:
            held = f"no holder found: the search ended after {self.followed_count:,} references"
        return (
            figure(self.count),
            size(self.nbytes),
            Cell(f"{self.op_count:,}" if self.op_count else "", self.op_count),
            Cell(growth, self.bytes_per_round),
            words(", ".join(self.kinds)),
            words(" > ".join(self.scope)),
            line(self.site, held),
        )

    def _share(self) -> str:
        """Return the share of disposables that the holder holds as text; empty for all of them."""
        if self.held_count == self.searched_count or self.searched_count > self.count:
            return ""  # all, or a search at an earlier moment, when more were alive
        if self.searched_count == self.count:
            return f" ({self.held_count:,} of {self.count:,})"
        return f" ({self.held_count:,} of the {self.searched_count:,} looked for)"


def lines_of(site: Site) -> list[dict[str, Any]]:
    """Return the lines of `site` as plain data."""
    return [
        {"file": line.file, "line": line.number, "function": line.function, "text": line.text}
        for line in site.lines
    ]


def site_from(lines: Iterable[Mapping[str, Any]]) -> Site:
    """Return the site of which ``lines_of()`` returned `lines`. It has the source text of that run."""
    return Site(tuple([Line(each["file"], each["line"], each["function"], each["text"]) for each in lines]))


_HEADINGS = (
    ("alive", True),
    ("bytes", True),
    ("graph ops", True),
    ("each round", True),
    ("type", False),
    ("in scope", False),
    ("created by", False),
)


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class LeakReport(Report):
    """Living disposables by creation line: growing lines first, then the others, each by memory.

    ``str(report)`` is a table. ``print()`` writes the table with ``rich`` if it is installed. ``to_html()``
    returns a page, ``to_dict()`` plain data. Notebooks show it as a table.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     print(scopes.leaks())
    nothing is alive that was created while tracking was on
    """

    rows: tuple[LeakRow, ...]
    #: The number of rounds: how often the most frequent scope has ended, at least 1.
    rounds: int

    @property
    def count(self) -> int:
        """The number of living disposables."""
        return sum(row.count for row in self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes that they keep."""
        return sum(row.nbytes for row in self.rows)

    @property
    def weight(self) -> int:
        """The sum of the rows' weights: their bytes, plus 256 for each operation."""
        return sum(row.weight for row in self.rows)

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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LeakReport:
        """Return the report of which ``to_dict()`` returned `data`, in this process or another one.

        Examples
        --------
        >>> import scopes, tensor
        >>> with scopes.track():
        ...     kept = tensor.ones((100,))
        ...     report = scopes.leaks()
        >>> str(scopes.LeakReport.from_dict(report.to_dict())) == str(report)
        True
        """
        return cls(tuple([LeakRow.from_dict(row) for row in data["rows"]]), data["rounds"])

    def _table(self) -> Table:
        if not self.rows:
            return Table("nothing is alive that was created while tracking was on", _HEADINGS, ())
        many, rounds = len(self.rows), self.rounds
        title = (
            f"{self.count:,} alive, {format_bytes(self.nbytes)}, created by {many:,} line{'s' * (many != 1)} "
            f"in {rounds:,} round{'s' * (rounds != 1)}"
        )
        return Table(title, _HEADINGS, [row._cells() for row in self.rows], "and {} more lines")


def in_order(rows: Iterable[LeakRow]) -> tuple[LeakRow, ...]:
    """Return `rows` by weight, but growing lines of at least 1% of the total first."""
    found = list(rows)
    least = sum([row.weight for row in found]) / 100

    def place(row: LeakRow) -> tuple[bool, int, int]:
        is_leak = row.is_growing and row.weight >= least
        return not is_leak, -row.weight, -row.count

    return tuple(sorted(found, key=place))
