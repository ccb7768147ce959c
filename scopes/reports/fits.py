"""The report of ``scopes.torch.fits``: what a training step needs, and whether it fits."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from html import escape
from typing import Any, TextIO

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.reports.pages import page, write_page
from scopes.reports.tables import Cell, Report, Table, as_html, as_rich, as_text, line, size, words
from scopes.tracking.sites import Site

# The parts of the memory of a step, in the order of columns.
PARTS = ("parameters", "buffers", "gradients", "optimizer", "inputs", "activations", "temporary")


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class FitsRow:
    """What a module or a line needs at the peak, in bytes."""

    #: The name of the module; empty for code outside of modules. For a row of a line, the module that ran.
    module: str
    #: The line, or None for a row of a module.
    site: Site | None
    nbytes: int
    #: The bytes by part, such as ``{"activations": 4096}``. Parts without bytes are left out.
    parts: dict[str, int]


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """What it would save to run modules under ``torch.utils.checkpoint``."""

    #: The names of the modules: each would be checkpointed.
    modules: tuple[str, ...]
    peak_bytes: int
    saved_bytes: int
    #: The additional floating-point operations of the step, as a part of its own: an estimate of the time,
    #: from matrix products, convolutions, attention and LSTMs. None if the step has none of them.
    extra_compute: float | None


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class FitsReport(Report):
    """The memory of a training step: see ``scopes.torch.fits``."""

    peak_bytes: int
    #: The memory to fit into; None if not given.
    memory: int | None
    #: The bytes at the peak by part: parameters, buffers, gradients, optimizer, inputs, activations and
    #: temporary.
    parts: dict[str, int]
    modules: tuple[FitsRow, ...]
    lines: tuple[FitsRow, ...]
    #: The size of the first dimension of the first argument with dimensions; None without one.
    batch: int | None
    #: The largest batch that fits into `memory`; 0 if not even one example does. None if not searched.
    largest_batch: int | None
    checkpoints: tuple[CheckpointRow, ...]
    #: What the figures do not include, and which values were not known.
    remarks: tuple[str, ...]
    #: Whether a real step was run, instead of one on fake tensors.
    is_measured: bool = False

    @property
    def fits(self) -> bool | None:
        """Whether the peak is at most `memory`; None without a limit."""
        return None if self.memory is None else self.peak_bytes <= self.memory

    @property
    def verdict(self) -> str:
        """One sentence: the peak, whether it fits, and the largest batch."""
        how = "a real step" if self.is_measured else "a step"
        at = "" if self.batch is None else f" with a batch of {self.batch:,}"
        about = "" if self.is_measured else "about "
        text = f"{how}{at} needs {about}{format_bytes(self.peak_bytes)} at its peak"
        if self.memory is not None:
            text += f": it {'fits' if self.fits else 'does not fit'} into {format_bytes(self.memory)}"
        if self.largest_batch == 0:
            text += "; no batch does"
        elif self.largest_batch is not None:
            text += f"; the largest batch that fits is {self.largest_batch:,}"
        return text

    def _table(self) -> Table:
        rows = [
            (words(part), size(nbytes), _share(nbytes, self.peak_bytes))
            for part, nbytes in self.parts.items()
            if nbytes
        ]
        headings = (("part", False), ("bytes", True), ("share", True))
        return Table(self.verdict, headings, rows)

    def _tables(self) -> list[Table]:
        tables = [self._table()]
        if self.modules:
            keys = [words(row.module or "(no module)") for row in self.modules]
            tables.append(_by_part("by module, at the peak", "module", keys, self.modules))
        if self.lines:
            keys = [line(row.site or Site(())) for row in self.lines]
            tables.append(_by_part("by line that creates it, at the peak", "line", keys, self.lines))
        if self.checkpoints:
            rows = [
                (
                    words(names_of(row.modules)),
                    size(row.peak_bytes),
                    size(row.saved_bytes),
                    Cell("unknown", -1) if row.extra_compute is None else _percent(row.extra_compute),
                )
                for row in self.checkpoints
            ]
            of = (("checkpoint", False), ("peak", True), ("saved", True), ("more compute (estimate)", True))
            tables.append(Table("with torch.utils.checkpoint around modules", of, rows))
        return tables

    def __str__(self) -> str:
        return "\n\n".join([*map(as_text, self._tables()), *self.remarks])

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        return Group(*map(as_rich, self._tables()), *map(Text, self.remarks))

    def _repr_html_(self) -> str:
        return "\n".join([*map(as_html, self._tables()), *self._paragraphs()])

    def _paragraphs(self) -> list[str]:
        return [f"<p>{escape(remark)}</p>" for remark in self.remarks]

    def print(self, file: TextIO | None = None) -> None:
        """Write the tables to `file`, the standard output if None."""
        stream = sys.stdout if file is None else file
        if stream is not None:
            stream.write(f"{self}\n")

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as a self-contained HTML page. With `path`, write it there too."""
        tables = [as_html(table, is_styled=False) for table in self._tables()]
        text = page(self.verdict, "\n".join([*tables, *self._paragraphs()]))
        if path is not None:
            write_page(path, text)
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a dict that JSON can hold."""
        return {
            "peak_bytes": self.peak_bytes,
            "memory": self.memory,
            "fits": self.fits,
            "batch": self.batch,
            "largest_batch": self.largest_batch,
            "parts": self.parts,
            "modules": [
                {"module": row.module, "bytes": row.nbytes, "parts": row.parts} for row in self.modules
            ],
            "lines": [{"line": str(row.site), "bytes": row.nbytes, "parts": row.parts} for row in self.lines],
            "checkpoints": [
                {
                    "modules": list(row.modules),
                    "peak_bytes": row.peak_bytes,
                    "saved_bytes": row.saved_bytes,
                    "extra_compute": row.extra_compute,
                }
                for row in self.checkpoints
            ],
            "remarks": list(self.remarks),
        }


def _by_part(title: str, heading: str, keys: list[Cell], rows: tuple[FitsRow, ...]) -> Table:
    """Return a table of `rows` with a column for each part that one of them has."""
    parts = [part for part in PARTS if any(part in row.parts for row in rows)]
    headings = ((heading, False), ("bytes", True), *[(part, True) for part in parts])
    cells = [[_size_or_nothing(row.parts.get(part, 0)) for part in parts] for row in rows]
    return Table(
        title,
        headings,
        [(key, size(row.nbytes), *each) for key, row, each in zip(keys, rows, cells, strict=True)],
    )


def _share(nbytes: int, total: int) -> Cell:
    return _percent(nbytes / total if total else 0.0)


def _percent(part: float) -> Cell:
    return Cell(f"{100 * part:.0f}%", part)


def _size_or_nothing(nbytes: int) -> Cell:
    return size(nbytes) if nbytes else Cell("", 0)


def names_of(modules: tuple[str, ...]) -> str:
    """Return the names of modules shortly: ``blocks.0 to blocks.5``."""
    return modules[0] if len(modules) == 1 else f"{modules[0]} to {modules[-1]}"
