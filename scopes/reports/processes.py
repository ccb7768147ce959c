"""One report of the processes of a run: the bytes of each line, with a column for each process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from scopes._shared.sizes import format_bytes
from scopes.reports.leak_report import LeakReport, LeakRow, lines_of
from scopes.reports.run_record import RunRecord
from scopes.reports.tables import Cell, Report, Table, line, size, words
from scopes.tracking.sites import Site

#: A verdict begins with this sentence if a process below the run's own leaks.
CHILDREN_LEAK = "Lines keep more and more in child processes."
#: The name of the process of the run itself.
MAIN = "MainProcess"
# Beyond this number of processes, the columns are the median and the processes that hold most and least.
_MAX_COLUMNS = 8
_MOST = 3
# A process differs if it holds this many bytes more or less than the median, and this part of the median.
_LEAST_DIFFERENCE = 64 * 1024
_LEAST_PART = 1 / 4
_MAX_SENTENCES = 5
_MAX_NAMED = 3


class Difference(NamedTuple):
    """How far a process is from the median of its peers at one line."""

    process: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the report."""

    #: "rank 3", the name of a process of multiprocessing, or the program's name.
    label: str
    pid: int
    rank: int | None
    #: What all its lines held when it held most, in bytes. An operation of a graph counts as 256.
    nbytes: int
    #: Whether it wrote the record of its end. Otherwise it was killed, or ended by ``os._exit``. True for the
    #: process of the run, whose own report says how it ended.
    has_ended: bool
    #: Whether it is compared with others: the ranks of a job, or else the largest group of like workers.
    is_compared: bool
    #: Whether it is the run's own process, which has started the others.
    is_main: bool


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """What one line held in each process."""

    site: Site
    #: For each process: the bytes that the line held when the process held most, and the growth. An operation
    #: of a graph counts as 256.
    nbytes: tuple[int, ...]
    risen: tuple[int, ...]
    #: The median of the processes that are compared.
    median: int
    #: The process that is farthest from the median, if that is far; None otherwise.
    difference: Difference | None
    #: The holder in the process that differs, else in the one in which the line grows or holds most.
    holder: str

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data, with one entry for each process."""
        return {
            "lines": lines_of(self.site),
            "bytes": list(self.nbytes),
            "risen": list(self.risen),
            "median": self.median,
            "holder": self.holder,
        }


@dataclass(frozen=True, slots=True)
class ProcessReport(Report):
    """What the processes of a run held, by creation line: lines where processes differ first.

    ``joined(records)`` makes it.
    """

    processes: tuple[Process, ...]
    rows: tuple[ProcessRow, ...]
    #: The number of other processes, which held fewer bytes than these.
    small_count: int = 0
    least: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes that all processes held, each when it held most."""
        return sum(process.nbytes for process in self.processes)

    @property
    def is_leaking(self) -> bool:
        """Whether a line keeps more and more in a process below the run's own."""
        below = [n for n, process in enumerate(self.processes) if not process.is_main]
        return any(row.risen[n] for row in self.rows for n in below)

    @property
    def verdict(self) -> str:
        """Sentences on processes that differ, lines that grow, killed processes, and those left out."""
        found = [*self._differences(), *self._growth(), *self._deaths()]
        if self.small_count:
            more = "more " if self.rows else ""
            many = f"process{'es' * (self.small_count != 1)}"
            each = " each" if self.small_count != 1 else ""
            found.append(
                f"{self.small_count:,} {more}child {many} held less than {format_bytes(self.least)}{each}."
            )
        return "\n".join(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data; bytes are whole numbers."""
        processes = [
            {
                "label": each.label,
                "pid": each.pid,
                "rank": each.rank,
                "bytes": each.nbytes,
                "has_ended": each.has_ended,
            }
            for each in self.processes
        ]
        return {
            "processes": processes,
            "rows": [row.to_dict() for row in self.rows],
            "small_count": self.small_count,
            "verdict": self.verdict,
        }

    def _differences(self) -> list[str]:
        differing = [(row, row.difference) for row in self.rows if row.difference is not None]
        sentences = []
        for row, (number, nbytes) in differing[:_MAX_SENTENCES]:
            more = "more" if nbytes > 0 else "less"
            grows = ""
            if row.risen[number]:
                grows = f", and this line keeps more and more there (+{format_bytes(row.risen[number])})"
            sentences.append(
                f"{self.processes[number].label} holds {format_bytes(abs(nbytes))} {more} than "
                f"{self._others(number)} at {row.site}{grows}{_held_by(row)}."
            )
        left = len(differing) - _MAX_SENTENCES
        return [*sentences, f"Processes differ at {left} more lines."] if left > 0 else sentences

    def _others(self, number: int) -> str:
        compared = [n for n, process in enumerate(self.processes) if process.is_compared]
        if len(compared) > 2:
            return "the median"
        return self.processes[next(n for n in compared if n != number)].label

    def _growth(self) -> list[str]:
        growing = sorted([row for row in self.rows if _growing_in(row)], key=lambda row: -max(row.risen))
        # Those in one process, which differs by it, have a sentence.
        growing = [
            row for row in growing if row.difference is None or _growing_in(row) != [row.difference[0]]
        ]
        sentences = [
            f"{row.site} keeps more and more in {_and(self._growing_in(row))}{_held_by(row)}."
            for row in growing[:_MAX_SENTENCES]
        ]
        left = len(growing) - _MAX_SENTENCES
        return [*sentences, f"{left} more lines keep more and more."] if left > 0 else sentences

    def _growing_in(self, row: ProcessRow) -> list[str]:
        """Return the processes in which the line grows, with the growth, most first."""
        numbers = _growing_in(row)
        named = [f"{self.processes[n].label} (+{format_bytes(row.risen[n])})" for n in numbers[:_MAX_NAMED]]
        return [*named, *_rest_of(numbers)]

    def _deaths(self) -> list[str]:
        labels = [process.label for process in self.processes if not process.has_ended]
        if not labels:
            return []
        named = [*labels[:_MAX_NAMED], *_rest_of(labels)]
        why = "still running, terminated, killed, or ended by os._exit"
        return [f"The table has a record from before the end of {_and(named)}: {why}."]

    def _table(self) -> Table:
        many = len(self.processes)
        columns = self._columns()
        some = "; those that held most and least have columns" if len(columns) < many else ""
        lines = f"{len(self.rows):,} line{'s' * (len(self.rows) != 1)}"
        who = f"{many} processes held" if many > 1 else "1 process held"
        each = ", each when it held most" if many > 1 else " when it held most"
        title = f"{who} {format_bytes(self.nbytes)}{each}, by {lines}{some}"
        headings = [(self.processes[n].label, True) for n in columns]
        cells = [[_size(row.nbytes[n]) for n in columns] for row in self.rows]
        if len(columns) < many:
            headings.append(("median", True))
            for row, found in zip(self.rows, cells, strict=True):
                found.append(size(row.median))
        # Without two processes to compare, or without growth, the columns would be empty.
        for heading, texts in (
            ("differs", [self._difference(row) for row in self.rows]),
            ("grows in", [", ".join(self._growing_in(row)) for row in self.rows]),
        ):
            if any(texts):
                headings.append((heading, False))
                for found, text in zip(cells, texts, strict=True):
                    found.append(words(text))
        headings.append(("created by", False))
        for row, found in zip(self.rows, cells, strict=True):
            found.append(line(row.site, f"held by {row.holder}" if row.holder else ""))
        return Table(title, tuple(headings), [tuple(found) for found in cells], "and {} more lines")

    def _difference(self, row: ProcessRow) -> str:
        if row.difference is None:
            return ""
        number, nbytes = row.difference
        return f"{self.processes[number].label}: {'+' if nbytes > 0 else '-'}{format_bytes(abs(nbytes))}"

    def _columns(self) -> list[int]:
        """Return the numbers of the processes to show: those that differ first, then by rank."""
        if len(self.processes) > _MAX_COLUMNS:
            by_size = sorted(range(len(self.processes)), key=lambda n: -self.processes[n].nbytes)
            # Workers of ranks hold least, as they should.
            compared = [n for n in by_size if self.processes[n].is_compared] or by_size
            return list(dict.fromkeys([*by_size[:_MOST], *compared[-_MOST:]]))
        farthest: dict[int, int] = {}
        for row in self.rows:
            if row.difference is not None:
                number, nbytes = row.difference
                farthest[number] = max(farthest.get(number, 0), abs(nbytes))
        return sorted(range(len(self.processes)), key=lambda n: -farthest.get(n, 0))


def joined(records: Iterable[RunRecord], least: int = 0, threshold: int = 1) -> ProcessReport:
    """Return one report of the processes of a run.

    Parameters
    ----------
    records
        The last record of each process, in any order.
    least
        Only count processes that held fewer bytes. Ranks are in the report in any case.
    threshold
        The growth from which a line is a leak, in bytes.
    """
    found = sorted(records, key=lambda record: (record.name != MAIN, record.rank is None, record.rank or 0))
    ranks = {id(record) for record in found if _is_rank(record, found)}
    shown = [record for record in found if id(record) in ranks or _highest(record).weight >= least]
    labels = _labels(shown, ranks)
    compared = ranks if len(ranks) > 1 else _alike(shown)
    highest = [_highest(record) for record in shown]
    processes = [
        Process(
            label,
            record.pid,
            record.rank,
            report.weight,
            record.ended is not None or record.name == MAIN,
            id(record) in compared,
            record.name == MAIN,
        )
        for record, report, label in zip(shown, highest, labels, strict=True)
    ]
    sites: dict[tuple[object, ...], Site] = {}
    rows: list[dict[tuple[object, ...], LeakRow]] = []
    risen: list[dict[tuple[object, ...], int]] = []
    for record, report in zip(shown, highest, strict=True):
        rows.append({_key(row.site): row for row in report.rows if row.weight})
        risen.append({_key(site): n for site, n in record.growing if n >= threshold})
        for site in [*[row.site for row in report.rows if row.weight], *[site for site, _ in record.growing]]:
            sites.setdefault(_key(site), site)
    made = [
        _row(site, [each.get(key) for each in rows], [each.get(key, 0) for each in risen], processes)
        for key, site in sites.items()
    ]
    made.sort(key=_place)
    children = sum(record.name != MAIN for record in found)
    small_count = children - sum(record.name != MAIN for record in shown)
    # A table of the run's own process alone says nothing new.
    if small_count == children:
        return ProcessReport((), (), small_count, least)
    return ProcessReport(tuple(processes), tuple(made), small_count, least)


def _row(site: Site, rows: list[LeakRow | None], risen: list[int], processes: list[Process]) -> ProcessRow:
    nbytes = [0 if row is None else row.weight for row in rows]
    compared = [n for n, process in enumerate(processes) if process.is_compared]
    middle = round(median([nbytes[n] for n in compared])) if compared else 0
    difference = None
    if len(compared) > 1:
        number = max(compared, key=lambda n: abs(nbytes[n] - middle))
        if len(compared) == 2:
            # The median of two is between them. Compare the larger one with the other.
            number = max(compared, key=lambda n: nbytes[n])
            middle = min([nbytes[n] for n in compared])
        far = nbytes[number] - middle
        if abs(far) >= max(_LEAST_DIFFERENCE, _LEAST_PART * middle):
            difference = Difference(number, far)
    first = [] if difference is None else [difference.process]
    by_growth = sorted(range(len(rows)), key=lambda n: (-risen[n], -nbytes[n]))
    holders = [row.holder for n in [*first, *by_growth] if (row := rows[n]) is not None and row.holder]
    return ProcessRow(site, tuple(nbytes), tuple(risen), middle, difference, next(iter(holders), ""))


def _place(row: ProcessRow) -> tuple[int, int, int]:
    difference = 0 if row.difference is None else abs(row.difference.nbytes)
    return -difference, -max(row.risen), -sum(row.nbytes)


def _highest(record: RunRecord) -> LeakReport:
    """Return the report of the moment at which the process held most."""
    return max(
        [report for _, report in record.parts], key=lambda report: report.weight, default=LeakReport((), 1)
    )


def _is_rank(record: RunRecord, records: Sequence[RunRecord]) -> bool:
    """Return whether the process is that of its rank, and not one that this has started."""
    if record.rank is None or record.name == MAIN:
        return False
    return not any(
        other.pid == record.parent_pid and other.rank == record.rank and other.name != MAIN
        for other in records
    )


def _alike(records: Sequence[RunRecord]) -> set[int]:
    """Return the largest group of processes that one process has started under one name, such as workers."""
    groups: dict[tuple[int, str], set[int]] = {}
    for record in records:
        if record.name != MAIN:
            name = record.name.rstrip("0123456789")  # workers are numbered
            groups.setdefault((record.parent_pid, name), set()).add(id(record))
    return max(groups.values(), key=len, default=set())


def _labels(records: Sequence[RunRecord], ranks: set[int]) -> list[str]:
    """Return a name for each process. Equal names get the number of the process."""
    labels = []
    for record in records:
        label = f"rank {record.rank}" if id(record) in ranks else record.name
        if record.name == MAIN:
            label = "main"
        elif record.rank is not None and id(record) not in ranks:
            label = f"rank {record.rank}: {label}"
        labels.append(label)
    counts = Counter(labels)
    return [
        f"{label} ({record.pid})" if counts[label] > 1 else label
        for label, record in zip(labels, records, strict=True)
    ]


def _size(nbytes: int) -> Cell:
    return size(nbytes) if nbytes else Cell("", 0)


def _growing_in(row: ProcessRow) -> list[int]:
    """Return the numbers of the processes in which the line grows, most first."""
    return sorted([n for n, risen in enumerate(row.risen) if risen], key=lambda n: -row.risen[n])


def _rest_of(named: Sequence[object]) -> list[str]:
    left = len(named) - _MAX_NAMED
    return [f"{left} more process{'es' * (left != 1)}"] if left > 0 else []


def _key(site: Site) -> tuple[object, ...]:
    return tuple([(each.file, each.number, each.function) for each in site.lines])


def _held_by(row: ProcessRow) -> str:
    return f", held by {row.holder}" if row.holder else ""


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
