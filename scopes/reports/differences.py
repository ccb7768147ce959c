"""The differences of two runs: lines that keep more or less than before, that came, went and moved.

The source may have changed between the runs. So lines are matched by their functions and texts, not by their
numbers: first the lines whose text is the same, in order, then those with the most similar text of the same
function, then those whose text is the same elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePath
from typing import Any, NamedTuple

from scopes._shared.sizes import format_bytes
from scopes.reports.leak_report import lines_of
from scopes.reports.run_record import RunRecord
from scopes.reports.tables import Cell, Report, Table, words
from scopes.tracking.sites import Line, Site

# The version of the schema of ``Differences.to_dict()``.
SCHEMA = 1
# Two texts of one function are the same line, changed, from this similarity on (`difflib`).
_SIMILAR = 0.6
# What one pair of equal lines is worth against any change of the distance between two lines.
_PAIR = 1_000_000


class _Kept(NamedTuple):
    """What a line kept at its highest of the moments that a record has."""

    weight: int
    disposable_count: int
    kinds: tuple[str, ...]
    holder: str


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A line in two runs. It was matched by its text, so its number may differ."""

    #: The user's lines in each run, innermost first; None if the line created nothing that was alive.
    before: Site | None
    after: Site | None
    #: The bytes that the line kept at most; an operation of a graph counts as 256.
    bytes_before: int
    bytes_after: int
    #: The number of disposables at that moment.
    count_before: int
    count_after: int
    #: Whether the line kept more and more throughout the run.
    is_growing_before: bool
    is_growing_after: bool
    #: The names of the types, and the holder in the later run, or in the earlier one if the line is gone.
    kinds: tuple[str, ...]
    holder: str

    @property
    def change(self) -> int:
        """The bytes after minus those before."""
        return self.bytes_after - self.bytes_before

    @property
    def status(self) -> str:
        """``"new"``, ``"gone"``, ``"grew"``, ``"shrank"`` or ``"same"``."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        return "grew" if self.change > 0 else "shrank" if self.change < 0 else "same"

    @property
    def is_moved(self) -> bool:
        """Whether the line has another number, function or file than before."""
        return (
            self.before is not None and self.after is not None and _places(self.before) != _places(self.after)
        )

    @property
    def is_changed(self) -> bool:
        """Whether the text of the line has changed."""
        return (
            self.before is not None and self.after is not None and _texts(self.before) != _texts(self.after)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return {
            "status": self.status,
            "is_moved": self.is_moved,
            "is_changed": self.is_changed,
            "before": None if self.before is None else lines_of(self.before),
            "after": None if self.after is None else lines_of(self.after),
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "change": self.change,
            "count_before": self.count_before,
            "count_after": self.count_after,
            "is_growing_before": self.is_growing_before,
            "is_growing_after": self.is_growing_after,
            "kinds": list(self.kinds),
            "holder": self.holder,
        }

    def _cells(self) -> tuple[Cell, ...]:
        growing = {
            (False, True): "now grows",
            (True, False): "no longer grows",
            (True, True): "grows, as before",
            (False, False): "",
        }[self.is_growing_before, self.is_growing_after]
        site = self.after or self.before or Site(())
        more = [site.text]
        if self.is_changed and self.before is not None:
            more.append(f"before: {self.before.text}")
        if self.holder:
            more.append(f"held by {self.holder}")
        place = _moved(self.before, self.after)
        return (
            words(self.status),
            Cell("" if self.before is None else format_bytes(self.bytes_before), self.bytes_before),
            Cell("" if self.after is None else format_bytes(self.bytes_after), self.bytes_after),
            Cell(_signed(self.change), self.change),
            words(growing),
            words(", ".join(self.kinds)),
            Cell(place, place, "\n".join(more)),
        )


_HEADINGS = (
    ("", False),
    ("before", True),
    ("after", True),
    ("change", True),
    ("in the run", False),
    ("type", False),
    ("created by", False),
)


@dataclass(frozen=True, slots=True)
class Differences(Report):
    """The lines of two runs: those that keep more come first, then those that keep less, then the others.

    ``str(report)`` is a table. ``print()`` writes the table with ``rich`` if it is installed. ``to_html()``
    returns a page, ``to_dict()`` plain data.
    """

    rows: tuple[DifferenceRow, ...]
    #: The names of the two records.
    before: str
    after: str
    #: The most that all lines kept together, at the moments that the records have.
    bytes_before: int
    bytes_after: int

    @property
    def change(self) -> int:
        """The bytes after minus those before, of all lines together."""
        return self.bytes_after - self.bytes_before

    @property
    def largest_growth(self) -> int:
        """The largest growth of a line, or of all lines together; 0 if nothing grew."""
        return max([0, self.change, *[row.change for row in self.rows]])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON. Sizes are bytes."""
        return {
            "schema": SCHEMA,
            "before": self.before,
            "after": self.after,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "change": self.change,
            "rows": [row.to_dict() for row in self.rows],
        }

    def _table(self) -> Table:
        counts = Counter(row.status for row in self.rows)
        moved = sum([row.is_moved for row in self.rows])
        found = [
            f"{counts[status]} {status}" for status in ("grew", "shrank", "new", "gone") if counts[status]
        ]
        found += [f"{moved} moved"] if moved else []
        lines = ", ".join(found) if found else "no line differs"
        total = f"{format_bytes(self.bytes_before)} -> {format_bytes(self.bytes_after)}"
        change = f" ({_signed(self.change)})" if self.change else ""
        title = f"{self.before} -> {self.after}: at most {total}{change}; lines: {lines}"
        if not self.rows:
            title = f"{self.before} -> {self.after}: no line kept memory in these runs"
        return Table(title, _HEADINGS, [row._cells() for row in self.rows], "and {} more lines")


def differences(
    before: RunRecord, after: RunRecord, names: tuple[str, str] = ("before", "after")
) -> Differences:
    """Return the differences of two runs by creation line.

    For each line, the report compares the most that it kept at the moments of the record: the high-water mark
    and the end. If one of the runs recorded more lines for each disposable (``--depth``), only the innermost
    ones that both have are compared.
    """
    sites = _Sites(min(_depth_of(before), _depth_of(after)))
    old, new = _kept_by_line(before, sites), _kept_by_line(after, sites)
    old_growing = {sites.of(site): None for site, _ in before.growing}
    new_growing = {sites.of(site): None for site, _ in after.growing}
    same = matched(_lines_in([*old, *old_growing]), _lines_in([*new, *new_growing]))
    in_new: dict[tuple[Line, ...], Site] = {site.lines: site for site in [*new_growing, *new]}
    rows = []
    used: set[Site] = set()
    for site in dict.fromkeys([*old, *old_growing]):
        lines = tuple([same[line] for line in site.lines if line in same])
        other = in_new.get(lines) if len(lines) == len(site.lines) else None
        if other is not None:
            used.add(other)
        kept = None if other is None else new.get(other)
        rows.append(_row(site, other, old.get(site), kept, old_growing, new_growing))
    rows += [
        _row(None, site, None, new.get(site), old_growing, new_growing)
        for site in dict.fromkeys([*new, *new_growing])
        if site not in used
    ]
    rows.sort(key=lambda row: (row.change <= 0, -abs(row.change), -row.bytes_after))
    highest = [max([report.weight for _, report in record.parts], default=0) for record in (before, after)]
    return Differences(tuple(rows), *names, *highest)


def _row(
    before: Site | None,
    after: Site | None,
    old: _Kept | None,
    new: _Kept | None,
    old_growing: Container[Site | None],
    new_growing: Container[Site | None],
) -> DifferenceRow:
    shown = new or old
    return DifferenceRow(
        before=before,
        after=after,
        bytes_before=0 if old is None else old.weight,
        bytes_after=0 if new is None else new.weight,
        count_before=0 if old is None else old.disposable_count,
        count_after=0 if new is None else new.disposable_count,
        is_growing_before=before in old_growing,
        is_growing_after=after in new_growing,
        kinds=() if shown is None else shown.kinds,
        holder="" if shown is None else shown.holder,
    )


class _Sites:
    """Makes equal stacks of lines one `Site`, because those of a file are not the objects of this process."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._lines: dict[tuple[str, int, str, str], Line] = {}
        self._sites: dict[tuple[Line, ...], Site] = {}

    def of(self, site: Site) -> Site:
        """Return the site of the innermost lines of `site`."""
        found = []
        for line in site.lines[: self._depth]:
            key = line.file, line.number, line.function, line.text
            found.append(self._lines.setdefault(key, Line(*key)))
        return self._sites.setdefault(tuple(found), Site(tuple(found)))


def _depth_of(record: RunRecord) -> int:
    sites = [row.site for _, report in record.parts for row in report.rows]
    return max([1, *[len(site.lines) for site in sites]])


def _kept_by_line(record: RunRecord, sites: _Sites) -> dict[Site, _Kept]:
    """Return what each line kept at the moment of the record at which it kept most."""
    found: dict[Site, _Kept] = {}
    for _, report in record.parts:
        here: dict[Site, _Kept] = {}
        for row in report.rows:
            site = sites.of(row.site)
            kept = _Kept(row.weight, row.count, row.kinds, row.holder)
            if site in here:  # they differ in outer lines, which only one of the records has
                one = here[site]
                kept = _Kept(
                    one.weight + row.weight,
                    one.disposable_count + row.count,
                    tuple(sorted({*one.kinds, *row.kinds})),
                    one.holder or row.holder,
                )
            here[site] = kept
        for site, kept in here.items():
            if site not in found or kept.weight > found[site].weight:
                found[site] = kept
    return found


def _lines_in(sites: Iterable[Site]) -> list[Line]:
    lines = dict.fromkeys([line for site in sites for line in site.lines])
    return sorted(lines, key=lambda line: (line.file, line.number, line.function))


# --- Matching ---------------------------------------------------------------------------------------------


def matched(old: Sequence[Line], new: Sequence[Line]) -> dict[Line, Line]:
    """Return for each line of `old` the same line of `new`, if there is one.

    Both are sorted by file and number. The file may lie in another folder.
    """
    found: dict[Line, Line] = {}
    old_files, new_files = _by_file(old), _by_file(new)
    for file, other in _matched_files(list(old_files), list(new_files)).items():
        found.update(_in_order(old_files[file], new_files[other]))
        _add_similar(old_files[file], new_files[other], found)
    _add_elsewhere(old, new, found)
    return found


def _by_file(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.file].append(line)
    return found


def _matched_files(old: list[str], new: list[str]) -> dict[str, str]:
    """Return for each file the same file of the other run: with the same path, else the same last parts."""
    found = {file: file for file in old if file in new}
    ends = [
        (common, a, b)
        for a in old
        for b in new
        if a not in found and b not in found and (common := _common_end(a, b))
    ]
    for _, a, b in sorted(ends, key=lambda end: (-end[0], end[1], end[2])):
        if a not in found and b not in found.values():
            found[a] = b
    return found


def _common_end(a: str, b: str) -> int:
    """Return the number of last parts of the paths that are the same."""
    count = 0
    for one, other in zip(reversed(PurePath(a).parts), reversed(PurePath(b).parts), strict=False):
        if one != other:
            break
        count += 1
    return count


def _in_order(old: list[Line], new: list[Line]) -> dict[Line, Line]:
    """Return the most pairs of lines with the same function and text that are in the same order.

    Of several possible choices, take the one in which the distance changes least from pair to pair: equal
    lines of a function that has moved as a whole stay apart.
    """
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n, line in enumerate(new):
        places[_key_of(line)].append(n)
    pairs = [(i, j) for i, line in enumerate(old) for j in places[_key_of(line)]]
    # For each pair: the best sum of pairs up to it, and the pair before it.
    best: list[tuple[int, int | None]] = []
    for i, j in pairs:
        distance = new[j].number - old[i].number
        value, last = _PAIR - min(abs(distance), _PAIR // 2), None
        for n, (i_before, j_before) in enumerate(pairs[: len(best)]):
            if i_before < i and j_before < j:
                bend = abs(distance - (new[j_before].number - old[i_before].number))
                reached = best[n][0] + _PAIR - min(bend, _PAIR // 2)
                if reached > value:
                    value, last = reached, n
        best.append((value, last))
    found: dict[Line, Line] = {}
    at = max(range(len(best)), key=lambda n: best[n][0], default=None)
    while at is not None:
        i, j = pairs[at]
        found[old[i]] = new[j]
        at = best[at][1]
    return found


def _key_of(line: Line) -> tuple[str, str]:
    # Without its source, a line is known by its number.
    return line.function, line.text or f":{line.number}"


def _add_similar(old: list[Line], new: list[Line], found: dict[Line, Line]) -> None:
    """Match lines of one function whose text has changed, the most similar ones first."""
    taken = set(found.values())
    close = []
    for line in [line for line in old if line not in found and line.text]:
        for other in [other for other in new if other not in taken and other.function == line.function]:
            ratio = SequenceMatcher(None, line.text, other.text, autojunk=False).ratio()
            if ratio >= _SIMILAR:
                close.append((-ratio, abs(line.number - other.number), line, other))
    for _, _, line, other in sorted(close, key=lambda each: each[:2]):
        if line not in found and other not in taken:
            found[line] = other
            taken.add(other)


def _add_elsewhere(old: Sequence[Line], new: Sequence[Line], found: dict[Line, Line]) -> None:
    """Match lines that have moved to another function or file, if only one line has their text."""
    taken = set(found.values())
    left: dict[str, list[Line]] = defaultdict(list)
    for other in new:
        if other not in taken and other.text:
            left[other.text].append(other)
    ours = Counter(line.text for line in old if line not in found)
    for line in old:
        others = left[line.text] if line.text else []
        if line not in found and ours[line.text] == 1 and len(others) == 1:
            found[line] = others[0]


# --- Words ------------------------------------------------------------------------------------------------


def _places(site: Site) -> list[tuple[str, int, str]]:
    # The folder does not count: the project may lie in another one.
    return [(PurePath(line.file).name, line.number, line.function) for line in site.lines]


def _texts(site: Site) -> list[str]:
    return [line.text for line in site.lines]


def _moved(before: Site | None, after: Site | None) -> str:
    """Return the lines as text, such as ``train.py:12 -> 15 in step``."""
    if before is None or after is None:
        return str(after or before or Site(()))
    pairs = zip(before.lines, after.lines, strict=True)
    return " < ".join([_moved_line(*pair) for pair in pairs]) or str(after)


def _moved_line(before: Line, after: Line) -> str:
    if before.number == after.number and before.function == after.function:
        return (
            str(after) if PurePath(before.file).name == PurePath(after.file).name else f"{before} -> {after}"
        )
    if PurePath(before.file).name != PurePath(after.file).name:
        return f"{before} -> {after}"
    place = str(after).removesuffix(f":{after.number} in {after.function}")
    if before.function != after.function:
        return f"{place}:{before.number} in {before.function} -> {after.number} in {after.function}"
    return f"{place}:{before.number} -> {after.number} in {after.function}"


def _signed(change: int) -> str:
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{format_bytes(abs(change))}" if change else ""
