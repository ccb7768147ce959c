"""Report the leaks of all workers of a job by line and worker: as text, table or HTML page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.reports.pages import Curve, chart_of, page, write_page
from scopes.reports.tables import Cell, Table, as_html

if TYPE_CHECKING:
    from nn.parallel.figures import WorkerFigures

# The most lines to print, and the most workers in the chart.
_MAX_ROWS = 20
_MAX_CURVES = 4
# The weight in bytes of a recorded operation when rows are sorted, as in `scopes.leaks`.
_OP_BYTES = 256


@set_module("nn.parallel")
@dataclass(frozen=True, slots=True)
class ClusterLeakRow:
    """Living disposables that one line of code created, in all workers."""

    #: The user's lines, innermost first, and the source of the first line.
    site: str
    text: str
    kinds: tuple[str, ...]
    #: The number and bytes of living disposables by rank; workers without any are omitted.
    counts: Mapping[int, int]
    sizes: Mapping[int, int]
    #: The workers in which the line leaks.
    growing_in: tuple[int, ...]
    #: The average number and bytes that a round left, by rank, without workers where the line does not grow.
    counts_per_round: Mapping[int, float] = field(default_factory=dict)
    sizes_per_round: Mapping[int, float] = field(default_factory=dict)
    #: The growth of the line over the loop in bytes, by rank. A graph's operation counts as 256.
    risen: Mapping[int, int] = field(default_factory=dict)
    #: The number of recorded operations in the graphs of the disposables, by rank.
    op_counts: Mapping[int, int] = field(default_factory=dict)
    #: The holders by rank, if known.
    holders: Mapping[int, str] = field(default_factory=dict)
    #: The names of the scopes around the oldest creation, outermost first.
    scope: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of living disposables."""
        return sum(self.counts.values())

    @property
    def nbytes(self) -> int:
        """The bytes that the living disposables keep."""
        return sum(self.sizes.values())

    @property
    def weight(self) -> int:
        """The sort key: the bytes of the disposables, plus 256 for each operation of their graphs."""
        return self.nbytes + _OP_BYTES * sum(self.op_counts.values())

    @property
    def workers(self) -> tuple[int, ...]:
        """The ranks of the workers with such disposables."""
        return tuple(self.counts)

    def __str__(self) -> str:
        where = ", ".join([self._in(rank) for rank in self.counts])
        kinds = ", ".join(self.kinds)
        head = f"{self.count:,} {kinds}, {format_bytes(self.nbytes)} ({where})"
        ranks: dict[str, list[int]] = {}
        for rank, holder in self.holders.items():
            ranks.setdefault(holder, []).append(rank)
        held = [f"held by {holder} (worker {_listed(of)})" for holder, of in ranks.items()]
        return "\n    ".join([head, self.site, self.text, *held])

    def _in(self, rank: int) -> str:
        text = f"worker {rank}: {self.counts[rank]:,}{' and growing' if rank in self.growing_in else ''}"
        each = self._each_round(rank)
        return f"{text}, {each} each round" if each else text

    def _each_round(self, rank: int) -> str:
        if not self.counts_per_round.get(rank):
            return ""
        return f"+{self.counts_per_round[rank]:.3g}, {format_bytes(round(self.sizes_per_round[rank]))}"

    def _cells(self, part: str) -> Iterable[tuple[Cell, ...]]:
        """Yield a row of a table for each worker."""
        for rank, count in self.counts.items():
            ops = self.op_counts.get(rank, 0)
            growth = self._each_round(rank) or ("grows" if rank in self.growing_in else "")
            holder = self.holders.get(rank)
            below = [self.text, f"held by {holder}"] if holder else [self.text]
            yield (
                _worker(rank),
                Cell(part, part),
                Cell(f"{count:,}", count),
                Cell(format_bytes(self.sizes[rank]), self.sizes[rank]),
                Cell(f"{ops:,}" if ops else "", ops),
                Cell(growth, self.sizes_per_round.get(rank, 0)),
                Cell(", ".join(self.kinds), ", ".join(self.kinds)),
                Cell(" > ".join(self.scope), " > ".join(self.scope)),
                Cell(self.site, self.site, "\n".join(below)),
            )


_HEADINGS = (
    ("worker", False),
    ("when", False),
    ("alive", True),
    ("bytes", True),
    ("graph ops", True),
    ("each round", True),
    ("type", False),
    ("in scope", False),
    ("created by", False),
)
_WORKER_HEADINGS = (
    ("worker", False),
    ("steps", True),
    ("waited, s", True),
    ("alive", True),
    ("live", True),
    ("at most", True),
    ("of the process", True),
    ("in the store", True),
    ("gone", False),
)


@set_module("nn.parallel")
@dataclass(frozen=True, slots=True)
class ClusterLeaks:
    """Living disposables of all workers by creation line: growing lines first, then by `weight`.

    ``str`` is a text, ``to_html()`` a page. Notebooks show it as tables.
    """

    #: Rows of the disposables alive after the loops; inside a job, those alive now.
    rows: tuple[ClusterLeakRow, ...]
    #: The workers that reported. Others did not track, were lost, or still run.
    workers: tuple[int, ...]
    #: Rows of each worker's high-water mark in the loop. Empty if nearly as much is alive at the end.
    highest: tuple[ClusterLeakRow, ...] = ()
    #: Rows of the lines that leak in a loop or after it.
    leaking: tuple[ClusterLeakRow, ...] = ()
    #: The last figures of each worker, by rank.
    figures: Mapping[int, WorkerFigures] = field(default_factory=dict)
    #: Each worker's memory over time, including graphs: pairs of seconds since the loop began, and bytes.
    moments: Mapping[int, Sequence[tuple[float, int]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of living disposables."""
        return sum(row.count for row in self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes that the living disposables keep."""
        return sum(row.nbytes for row in self.rows)

    def __str__(self) -> str:
        many = len(self.workers)
        head = "nothing is alive" if not self.rows else f"{self.count:,} alive"
        size = f", {format_bytes(self.nbytes)}" if self.rows else ""
        lines = [f"{head} in {many} worker{'s' * (many != 1)}{size}", *_listing(self.rows)]
        if self.highest:
            nbytes = format_bytes(sum(row.nbytes for row in self.highest))
            count = sum(row.count for row in self.highest)
            title = f"{count:,} alive, {nbytes}, when each worker's loop held most"
            lines = [title, *_listing(self.highest), "", "After the loops:", *lines]
        if self.moments:
            lines += ["", self.verdict]
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """A text that names the leaking lines and their workers."""
        if not self.leaking:
            return "No line keeps more and more."
        found = [
            f"{row.site}, worker {_listed(row.risen)} ({format_bytes(sum(row.risen.values()))})"
            for row in self.leaking
        ]
        keep = "1 line keeps" if len(found) == 1 else f"{len(found)} lines keep"
        return f"{keep} more and more: {'; '.join(found)}."

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as a self-contained HTML page. With `path`, write it there too.

        A list above the tables selects a worker. A click on a heading sorts, and a field filters.

        Raises
        ------
        FileExistsError
            If `path` exists and is not a report of this library.

        Examples
        --------
        >>> import scopes
        >>> from nn import parallel
        >>> with scopes.track():
        ...     parallel.leaks().to_html().startswith("<!DOCTYPE html>")
        True
        """
        tables = "\n".join([as_html(table, is_styled=False) for table in self._tables()])
        many = len(self.workers)
        facts = [f"{many} worker{'s' * (many != 1)}"]
        if self.moments:
            facts.append(self.verdict)
        ranks = sorted({*self.workers, *self.figures})
        text = page(
            "What the workers kept", tables, facts, self._chart(), [_worker(rank).text for rank in ranks]
        )
        if path is not None:
            write_page(path, text)
        return text

    def _repr_html_(self) -> str:
        verdict = f"<p>{escape(self.verdict)}</p>" if self.moments else ""
        return "\n".join([*[as_html(table) for table in self._tables()], verdict])

    def _tables(self) -> list[Table]:
        parts = [("in the loop", row) for row in self.highest] + [("at the end", row) for row in self.rows]
        cells = [each for part, row in parts for each in row._cells(part)]
        title = "What is alive, by line and worker" if cells else "Nothing is alive"
        if self.highest:
            title += ": when each loop held most, and at the end"
        workers = [_figures(it) for it in self.figures.values()]
        return [
            Table(title, _HEADINGS, cells, choice="worker"),
            Table("The workers", _WORKER_HEADINGS, workers, choice="worker"),
        ]

    def _chart(self) -> str:
        peaks = {
            rank: max([nbytes for _, nbytes in points], default=0) for rank, points in self.moments.items()
        }
        first = sorted(peaks, key=lambda rank: -peaks[rank])[:_MAX_CURVES]
        curves = [Curve(_worker(rank).text, self.moments[rank]) for rank in sorted(first)]
        return chart_of(Curve("all workers", _sum_of(self.moments.values())), curves)


def merged(outcomes: Mapping[int, dict[str, Any]], figures: Mapping[int, WorkerFigures]) -> ClusterLeaks:
    """Merge the reports of the workers' loops (see `watching`) into one report."""
    outcomes = dict(sorted(outcomes.items()))
    at_the_end = {rank: outcome["at_the_end"] for rank, outcome in outcomes.items()}
    highest = {rank: outcome["highest"] or outcome["at_the_end"] for rank, outcome in outcomes.items()}
    is_end_only = all(outcome["highest"] is None for outcome in outcomes.values())
    rows = _rows_of(at_the_end)
    in_loops = () if is_end_only else _rows_of(highest)
    leaking: dict[str, dict[int, int]] = {}
    for rank, outcome in outcomes.items():
        for line in outcome["leaking"]:
            leaking.setdefault(_site_of(line), {})[rank] = line["risen"]
    by_site = {row.site: row for row in (*rows, *in_loops)}
    return ClusterLeaks(
        rows,
        tuple(outcomes),
        in_loops,
        tuple([by_site[site] for site in leaking if site in by_site]),
        figures,
        {
            rank: [(at, nbytes) for at, nbytes in outcome["moments"]]
            for rank, outcome in outcomes.items()
            if outcome["moments"]
        },
    )


def _rows_of(reports: Mapping[int, dict[str, Any]]) -> tuple[ClusterLeakRow, ...]:
    """Merge the workers' ``LeakReport.to_dict()``, given by rank, into one row for each line."""
    rows: dict[str, dict[str, Any]] = {}
    for rank, report in reports.items():
        for given in report["rows"]:
            row = rows.setdefault(_site_of(given), _new_row())
            row["text"] = row["text"] or (given["lines"][0]["text"] if given["lines"] else "")
            row["kinds"].update(dict.fromkeys(given["kinds"]))
            row["scope"] = row["scope"] or tuple(given["scope"])
            for name, key in _SUMS.items():
                if given[key]:
                    row[name][rank] = row[name].get(rank, 0) + given[key]
            row["counts"].setdefault(rank, 0)
            row["sizes"].setdefault(rank, 0)
            if given["holder"]:
                row["holders"][rank] = given["holder"]
            if given["is_growing"]:
                row["growing_in"][rank] = None
    made = []
    for site, row in rows.items():
        row.update(kinds=tuple(row["kinds"]), growing_in=tuple(row["growing_in"]))
        made.append(ClusterLeakRow(site, **row))
    least = sum([row.weight for row in made]) / 100
    made.sort(key=lambda row: (not (row.growing_in and row.weight >= least), -row.weight, -row.count))
    return tuple(made)


# The fields that map ranks to numbers, and their names in a row of one worker.
_SUMS = {
    "counts": "count",
    "sizes": "bytes",
    "counts_per_round": "count_per_round",
    "sizes_per_round": "bytes_per_round",
    "risen": "risen",
    "op_counts": "ops",
}


def _new_row() -> dict[str, Any]:
    maps: dict[str, Any] = {name: {} for name in (*_SUMS, "holders", "kinds", "growing_in")}
    return {**maps, "text": "", "scope": ()}


def _site_of(row: Mapping[str, Any]) -> str:
    lines = [f"{line['file']}:{line['line']} in {line['function']}" for line in row["lines"]]
    return " < ".join(lines) or "<unknown>"


def _listing(rows: Sequence[ClusterLeakRow]) -> list[str]:
    more = len(rows) - _MAX_ROWS
    return [str(row) for row in rows[:_MAX_ROWS]] + ([f"and {more} more lines"] if more > 0 else [])


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))


def _worker(rank: int) -> Cell:
    return Cell(f"worker {rank}", rank)


def _figures(it: WorkerFigures) -> tuple[Cell, ...]:
    sizes = (it.memory.bytes_live, it.memory.bytes_peak, it.bytes_of_process, it.bytes_in_store)
    return (
        _worker(it.rank),
        Cell(f"{it.step:,}", it.step),
        Cell(f"{it.seconds_waited:.3f}", it.seconds_waited),
        Cell(f"{it.disposables.live_count:,}", it.disposables.live_count),
        *[Cell(format_bytes(nbytes), nbytes) for nbytes in sizes],
        Cell(it.lost, it.lost),
    )


def _sum_of(curves: Iterable[Sequence[tuple[float, int]]]) -> list[tuple[float, int]]:
    """Return the sum of the curves at each time when one of them changes."""
    changes: dict[float, int] = {}
    for points in curves:
        before = 0
        for at, nbytes in points:
            changes[at] = changes.get(at, 0) + nbytes - before
            before = nbytes
    total, found = 0, []
    for at, change in sorted(changes.items()):
        total += change
        found.append((at, total))
    return found
