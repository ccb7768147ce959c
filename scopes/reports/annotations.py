"""Lines that keep more and more, as annotations that GitHub shows beside the source.

A step of a workflow writes ``::warning file=train.py,line=12::text`` to its output.
"""

from __future__ import annotations

import os
from pathlib import Path

from scopes._shared.sizes import format_bytes
from scopes.reports.killed import first_row, headline
from scopes.reports.run_record import RunRecord
from scopes.tracking.sites import Site


def github_annotations(record: RunRecord) -> list[str]:
    """Return the annotations of `record`: one for a run that was killed, and one for each growing line."""
    found = []
    if record.latest.rows and record.ended is not None and not record.ended.startswith("exit status 0"):
        found.append(_annotation("error", first_row(record.latest).site, headline(record)))
    rows = {row.site: (row, report.rounds) for _, report in record.parts for row in report.rows}
    for site, risen in record.growing:
        text = f"The memory of this line keeps growing: by {format_bytes(risen)}"
        row, rounds = rows.get(site, (None, 1))
        if row is not None and row.bytes_per_round and rounds > 1:
            text += f", {format_bytes(round(row.bytes_per_round))} each round"
        if row is not None and row.holder:
            text += f", held by {row.holder}"
        found.append(_annotation("warning", site, text))
    return found


def _annotation(kind: str, site: Site, text: str) -> str:
    if not site.lines:
        return f"::{kind}::{_escaped(text)}"
    file = _escaped(_in_repository(site.file)).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} file={file},line={site.line}::{_escaped(text)}"


def _in_repository(file: str) -> str:
    """Return `file` relative to the checkout, as GitHub expects it."""
    root = os.environ.get("GITHUB_WORKSPACE", "")
    if root and Path(file).is_relative_to(root):
        return str(Path(file).relative_to(root))
    return file


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
