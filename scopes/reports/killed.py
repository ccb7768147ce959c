"""Say how a run ended, and what its last record shows."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from scopes._shared.memory_limits import MACHINE
from scopes._shared.sizes import format_bytes
from scopes.reports.leak_report import LeakReport, LeakRow
from scopes.reports.run_record import RunRecord

# The last record is about as new as the end if it is at most this old, in seconds.
_NEW = 0.05
# Memory that no line explains is worth a sentence from this size on, if it is this part of the resident size.
_LEAST_UNEXPLAINED, _LEAST_PART = 2**28, 0.25


def end_by(status: int, *, is_for_memory: bool) -> str:
    """Return the words for the wait status of a process that wrote no report; -1 if it is unknown.

    `is_for_memory` says whether the kernel killed processes of the container for memory meanwhile.
    """
    if status < 0:
        words = "no report of its own: it was killed, crashed, or called os._exit()"
        return f"{words}. The kernel killed a process of its container for memory" if is_for_memory else words
    if not os.WIFSIGNALED(status):
        return f"exit status {os.WEXITSTATUS(status)} (without its own report, as os._exit() ends)"
    number = os.WTERMSIG(status)
    name = str(number)
    with suppress(ValueError):
        name = signal.Signals(number).name
    if number == signal.SIGKILL:
        return f"killed by {name}" + (", by the kernel for memory" if is_for_memory else "")
    return f"killed by {name} ({signal.strsignal(number)})"


def headline(record: RunRecord) -> str:
    """Return a sentence: how the run ended, how much memory it had, and the first line of its report."""
    return f"{record.program} {_how(record)}{_memory(record)}: {_first_line(record)}"


def _how(record: RunRecord) -> str:
    ended = record.ended
    if ended is None:
        return f"was running, {record.seconds:.3g} s after its start"
    if ended.startswith("killed"):
        return f"was {ended}"
    return ended if ended.startswith("left") else f"ended with {ended}"


def _memory(record: RunRecord) -> str:
    text = ""
    if record.resident_bytes is not None:
        text = f" at {format_bytes(record.resident_bytes)} resident"
    # The machine's memory says something about a kill alone: the kernel may have been the one.
    is_told = record.limit_kind != MACHINE or (record.ended or "").startswith("killed by SIGKILL")
    if record.limit_bytes is not None and is_told:
        text += f", {record.limit_kind} is {format_bytes(record.limit_bytes)}"
    return text


def _first_line(record: RunRecord) -> str:
    report = record.latest
    if not report.rows:
        return "nothing was alive that was created while tracking was on"
    return _held_by(first_row(report), report.rounds)


# A growing line is named before one that holds more, if it holds this part of the memory.
_LEAST_GROWING = 0.25


def first_row(report: LeakReport) -> LeakRow:
    """Return the row to name: the largest growing line if it holds much, else the largest line."""
    growing = [row for row in report.rows if row.is_growing and row.weight >= _LEAST_GROWING * report.weight]
    return max(growing or report.rows, key=lambda row: row.weight)


def _held_by(row: LeakRow, rounds: int) -> str:
    text = f"{row.site} held {format_bytes(row.nbytes)}"
    if row.bytes_per_round and rounds > 1:
        text += f", +{format_bytes(round(row.bytes_per_round))} each round"
    elif row.is_growing:
        text += ", and grew"
    return f"{text}, held by {row.holder}" if row.holder else text


def unexplained(record: RunRecord) -> str:
    """Return a sentence about resident memory that no line explains; "" if there is little."""
    resident, unknown = record.resident_bytes, record.unexplained_bytes
    if resident is None or unknown is None or unknown < max(_LEAST_UNEXPLAINED, _LEAST_PART * resident):
        return ""
    return (
        f"Of its resident memory, {format_bytes(unknown)} came during the run and are not memory of the "
        "lines below: other objects of Python, other libraries, or free memory that an allocator keeps."
    )


def last_words(record: RunRecord, seconds_before_end: float | None = None) -> str:
    """Return the record of a run whose process wrote no report itself, as text without the verdict."""
    sentences = [headline(record), unexplained(record)]
    if seconds_before_end is not None and seconds_before_end > _NEW:
        sentences.append(f"The last record is {seconds_before_end:.2g} s older than the end.")
    return "\n".join([*filter(None, sentences), "", record.tables])
