"""Format tables as plain text, with ``rich`` if it is installed, and as HTML."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TextIO

from scopes._shared.sizes import format_bytes
from scopes.reports.pages import page, write_page

if TYPE_CHECKING:
    from scopes.tracking.sites import Site

# The most rows of a text. Pages and dicts have all rows.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table: the text, and the value that a page sorts by."""

    text: str
    order: float | str
    # A second line, under the first.
    more: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a report."""

    title: str
    # The headings, and whether the column is numeric and aligned right.
    headings: tuple[tuple[str, bool], ...]
    rows: Sequence[tuple[Cell, ...]]
    # The line for omitted rows, with their number.
    rest: str = "and {} more rows"
    # The heading of a column with few values, for which a page offers a list that selects rows.
    choice: str = ""


class Report:
    """Base class of reports, such as `LeakReport`: output as text, HTML and ``rich``."""

    __slots__ = ()

    def _table(self) -> Table:
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self._table())

    def __rich__(self) -> Any:
        return as_rich(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def print(self, file: TextIO | None = None) -> None:
        """Write the table to `file` (the standard output if None), with ``rich`` if it is installed.

        If `file` is a terminal, the table is folded to its width. A program without a standard output writes
        nothing.

        Examples
        --------
        >>> import io, scopes
        >>> with scopes.track():
        ...     scopes.leaks().print(io.StringIO())
        """
        stream = sys.stdout if file is None else file
        if stream is None:
            return
        try:
            from rich.console import Console
        except ImportError:
            stream.write(f"{self}\n")
        else:
            # With the height too: without it, `rich` takes 80 columns if TERM is dumb.
            console = Console(file=stream, width=_width_of(stream), height=25)
            console.print(as_rich(self._table()))

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as a self-contained HTML page. With `path`, write it there too.

        A click on a heading sorts by its column. The field above the table filters rows.

        Raises
        ------
        FileExistsError
            If `path` exists and is not a report of this library.

        Examples
        --------
        >>> import scopes
        >>> with scopes.track():
        ...     scopes.leaks().to_html().startswith("<!DOCTYPE html>")
        True
        """
        table = self._table()
        text = page(table.title, as_html(table, is_styled=False))
        if path is not None:
            write_page(path, text)
        return text


# The columns of a file: more than any table has, because folded lines are hard to read in a log.
_UNLIMITED = 1_000_000


def _width_of(stream: TextIO) -> int | None:
    """Return the columns of the terminal of `stream`, None if the terminal has no size.

    The question is not put to ``rich``: with FORCE_COLOR it takes each stream for a terminal of 80 columns.
    """
    try:
        return (os.get_terminal_size(stream.fileno()).columns or None) if stream.isatty() else _UNLIMITED
    except (AttributeError, OSError, ValueError):
        return _UNLIMITED


def figure(value: float) -> Cell:
    """Return a cell with a number."""
    return Cell(f"{value:,}" if isinstance(value, int) else f"{value:,.4g}", value)


def size(nbytes: float) -> Cell:
    """Return a cell with bytes."""
    return Cell(format_bytes(round(nbytes)), nbytes)


def words(text: str) -> Cell:
    """Return a cell with text."""
    return Cell(text, text)


def line(site: Site, more: str = "") -> Cell:
    """Return a cell with a user's line, and below it the source and `more`."""
    return Cell(str(site), str(site), "\n".join([site.text, more]) if more else site.text)


def as_text(table: Table) -> str:
    """Return the table in columns of plain text."""
    shown = table.rows[:SHOWN]
    headings = [heading for heading, _ in table.headings]
    entries = [[cell.text for cell in row] for row in shown]
    widths = [max(map(len, column)) for column in zip(headings, *entries, strict=True)]
    rights = [is_figure for _, is_figure in table.headings]
    if not shown:
        return table.title
    lines = [_line(headings, widths, rights), "  ".join("-" * width for width in widths)]
    for row, written in zip(shown, entries, strict=True):
        lines.append(_line(written, widths, rights))
        below = zip_longest(*[cell.more.splitlines() for cell in row], fillvalue="")
        lines += [_line([f"    {text}" if text else "" for text in more], widths, rights) for more in below]
    return "\n".join([table.title, "", *lines, *_rest_of(table)])


def _line(entries: list[str], widths: list[int], rights: list[bool]) -> str:
    columns = zip(entries, widths, rights, strict=True)
    return "  ".join(e.rjust(w) if is_right else e.ljust(w) for e, w, is_right in columns).rstrip()


def _rest_of(table: Table) -> list[str]:
    left = len(table.rows) - SHOWN
    return [table.rest.format(f"{left:,}")] if left > 0 else []


def as_rich(table: Table) -> Any:
    """Return the table as a ``rich`` table."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rest = _rest_of(table)
    made = RichTable(
        title=Text(table.title),
        caption=Text(rest[0]) if rest else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    for heading, is_figure in table.headings:
        made.add_column(heading, justify="right" if is_figure else "left", no_wrap=is_figure, overflow="fold")
    for row in table.rows[:SHOWN]:
        made.add_row(*[Text("\n    ".join([cell.text, *cell.more.splitlines()])) for cell in row])
    return made


def as_html(table: Table, *, is_styled: bool = True) -> str:
    """Return the table as HTML. With `is_styled`, cells have inline styles, for notebooks."""
    head = "".join(
        f"<th{_attributes(is_figure, True, is_styled)}{' data-choice' if heading == table.choice else ''}>"
        f"{escape(heading)}</th>"
        for heading, is_figure in table.headings
    )
    entry = partial(_entry, is_styled=is_styled)
    body = "\n".join(f"<tr>{''.join(map(entry, row, table.headings))}</tr>" for row in table.rows)
    caption = f'<caption style="text-align: left">{escape(table.title)}</caption>'
    return (
        f'<div class="scroll"><table class="disposescope">{caption}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _attributes(is_figure: bool, is_on_one_line: bool, is_styled: bool) -> str:
    name = f' class="{"figure" if is_figure else "words"}"'
    if not is_styled:
        return name
    style = f"text-align: {'right' if is_figure else 'left'}; vertical-align: top"
    return f'{name} style="{style}; white-space: nowrap"' if is_on_one_line else f'{name} style="{style}"'


def _entry(cell: Cell, heading: tuple[str, bool], *, is_styled: bool) -> str:
    label, is_figure = heading
    more = "".join([f"<br><code>{escape(text)}</code>" for text in cell.more.splitlines()])
    empty = "" if cell.text or more else " data-empty"
    return (
        f'<td{_attributes(is_figure, is_figure, is_styled)} data-label="{escape(label)}"'
        f' data-order="{escape(str(cell.order))}"{empty}>{escape(cell.text)}{more}</td>'
    )
