"""Files and annotations of a report, for a run that ended and for the record of one that was killed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from scopes._shared.files import require_ours
from scopes._shared.stderr import write_to_stderr
from scopes.command.options import PROGRAM
from scopes.reports.annotations import github_annotations
from scopes.reports.killed import headline
from scopes.reports.pages import Curve, chart_of, page
from scopes.reports.run_record import RunRecord
from scopes.reports.tables import Report


def page_of(
    record: RunRecord,
    parts: Sequence[tuple[str, Report]] = (),
    *,
    command: str = "",
    chart: str = "",
) -> str:
    """Return the page of `record`, with its own parts and chart if none are given."""
    tables = [f"<h2>{escape(title)}</h2>\n{part._repr_html_()}" for title, part in parts or record.parts]
    tables.append(f"<p>{escape(record.verdict)}</p>")
    facts = [command or " ".join(map(shlex.quote, [record.program, *record.arguments]))]
    if not command:
        facts.append(headline(record))
    facts.append(f"Python {record.python}")
    drawn = chart or chart_of(Curve("all", record.moments), ())
    return page(f"What {record.program} kept", "\n".join(tables), facts, drawn)


def write_json(path: Path, record: RunRecord) -> None:
    """Write `record` to `path`. Raise FileExistsError if a file of the user exists there."""
    require_ours(path).write_text(f"{record.to_json()}\n", encoding="utf-8", errors="backslashreplace")


def write_annotations(record: RunRecord, is_wanted: bool | None) -> None:
    """Write annotations to the standard error stream: if `is_wanted`, or if None in a workflow of GitHub."""
    if is_wanted or (is_wanted is None and os.environ.get("GITHUB_ACTIONS") == "true"):
        for line in github_annotations(record):
            write_to_stderr(line)


def write_files(writes: Sequence[Callable[[], object]]) -> bool:
    """Run all of `writes`, and return whether none failed. Say why one failed."""
    is_written = True
    for write in writes:
        try:
            write()
        except OSError as error:
            write_to_stderr(f"{PROGRAM}: can't write the report: {error}")
            is_written = False
    return is_written
