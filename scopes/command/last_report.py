"""Print the report of a program that was killed, from its last record. The watcher runs this."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from scopes._shared.memory_limits import kills_in
from scopes._shared.stderr import write_to_stderr
from scopes.command.children import report_in
from scopes.command.options import PROGRAM
from scopes.command.outputs import page_of, write_annotations, write_files, write_json
from scopes.reports.killed import end_by, last_words
from scopes.reports.pages import write_page
from scopes.reports.processes import CHILDREN_LEAK
from scopes.reports.run_record import NoRecordError, RunRecord
from scopes.reports.spool import Spool, read_record


def settings_for(
    record: Path | None,
    program: str,
    *,
    folder: Path | None,
    is_kept: bool,
    html: Path | None,
    json: Path | None,
    annotate: bool | None,
    killer: Path | None,
) -> dict[str, Any]:
    """Return what the watcher passes on to ``main()``.

    Parameters
    ----------
    record
        The file of the program's record, which stays if `is_kept`. None: it could not be written.
    program
        The name of the program.
    folder
        The folder of the run, with the records of its children, to be removed.
    html, json, annotate
        The options of the command.
    killer
        The file that counts the processes that the kernel killed for memory.
    """
    return {
        "record": None if record is None else str(record),
        "program": program,
        "folder": None if folder is None else str(folder),
        "is_kept": is_kept,
        "html": None if html is None else str(html),
        "json": None if json is None else str(json),
        "annotate": annotate,
        "killer": None if killer is None else str(killer),
        "kills": None if killer is None else kills_in(killer),
    }


def main() -> None:
    """Print the report.

    The arguments are the folder of the package, the settings, the wait status and the time of the end.
    """
    settings, status, end = json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    try:
        _report(settings, end_by(status, is_for_memory=_is_for_memory(settings)), end)
    finally:
        if settings["folder"] is not None:
            shutil.rmtree(settings["folder"], ignore_errors=True)


def _is_for_memory(settings: dict[str, Any]) -> bool:
    if settings["killer"] is None:
        return False
    kills = kills_in(Path(settings["killer"]))
    return kills is not None and kills > (settings["kills"] or 0)


def _report(settings: dict[str, Any], ended: str, end: float) -> None:
    if settings["record"] is None:
        write_to_stderr(f"{PROGRAM}: {settings['program']} ended: {ended}. There is no record of the run")
        return
    path = Path(settings["record"])
    try:
        found = read_record(path)
    except (OSError, NoRecordError) as error:
        write_to_stderr(
            f"{PROGRAM}: {settings['program']} ended: {ended}. There is no record of the run: {error}"
        )
        return
    record = replace(found, ended=ended)
    write_to_stderr(f"\n{last_words(record, end - record.at)}")
    if settings["folder"] is not None:
        processes, remarks = report_in(Path(settings["folder"]), record)
        if processes is not None:
            write_to_stderr(f"\nBy process:\n{processes}")
        for text in remarks:
            write_to_stderr(f"\n{text}")
        if processes is not None and processes.is_leaking:
            record = replace(record, verdict=f"{CHILDREN_LEAK} {record.verdict}")
    write_to_stderr(f"\n{record.verdict}")
    writes: list[Callable[[], object]] = []
    if settings["html"] is not None:
        writes.append(lambda: write_page(settings["html"], page_of(record)))
    if settings["json"] is not None:
        writes.append(lambda: write_json(Path(settings["json"]), record))
    write_files(writes)
    write_annotations(record, settings["annotate"])
    if settings["is_kept"]:
        _write_end(path, record)


def _write_end(path: Path, record: RunRecord) -> None:
    """Write the record again, with how the run ended."""
    try:
        with Spool(path) as spool:
            spool.write(record.to_json())
    except OSError as error:
        write_to_stderr(f"{PROGRAM}: can't write how the run ended to the record: {error}")
