"""Summarize a trace file as text: the lines whose disposables stay alive, the times of scopes, the peaks."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scopes._shared.sizes import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    Event = dict[str, Any]

_ROWS = 20


class NoTraceError(Exception):
    """The file is not a trace of a timeline."""


def summarize(path: Path) -> str:
    """Return a summary of the trace in `path`, compressed or not.

    Raises
    ------
    OSError
        If the file does not exist or can't be read.
    NoTraceError
        If the file is not a trace of a timeline.
    """
    trace = _read(path)
    events, about = trace["traceEvents"], trace["otherData"]
    paragraphs = [f"{path}: {float(about['seconds']):.3g} s, {_figures(events)}"]
    paragraphs += [
        text for text in (_lines(events), _scopes(events), _peaks(events), _missing(about)) if text
    ]
    return "\n\n".join(paragraphs)


def _read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        trace = json.loads(data)
        if trace["otherData"]["recorder"] == "disposescope":
            return dict(trace)
    except (ValueError, LookupError, TypeError, EOFError, OSError, zlib.error):
        pass
    raise NoTraceError(
        f"{path} is not a trace of scopes: write one with `disposescope run --trace trace.json script.py`, "
        "or with the save() of a scopes.Timeline"
    )


def _figures(events: Sequence[Event]) -> str:
    live = [event["args"]["live"] for event in events if event["ph"] == "C" and event["name"] == "bytes"]
    count = [
        event["args"]["live"] for event in events if event["ph"] == "C" and event["name"] == "disposables"
    ]
    if not live or not count:
        return "nothing recorded"
    return (
        f"at most {format_bytes(max(live))} in {max(count):,} disposables at once, "
        f"{format_bytes(live[-1])} in {count[-1]:,} at the end"
    )


def _lines(events: Sequence[Event]) -> str:
    """Return the lines that created disposables alive at the end."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for event in _of(events, "create"):
        args = event["args"]
        counts[args["line"]] += args["count"]
        made[args["line"]] += args["count"]
        sizes[args["line"]] += args["bytes"]
    for event in _of(events, "dispose"):
        args = event["args"]
        counts[args["line"]] -= args["count"]
        sizes[args["line"]] -= args["bytes"]
    left = [line for line in made if counts[line] > 0]
    left.sort(key=lambda line: (-sizes[line], -counts[line]))
    rows = [(f"{counts[at]:,}", f"{made[at]:,}", format_bytes(max(sizes[at], 0)), at) for at in left]
    return _table("Alive at the end, by the line that created it", ("alive", "of", "bytes", "line"), rows)


def _scopes(events: Sequence[Event]) -> str:
    rounds: Counter[str] = Counter()
    micros: Counter[str] = Counter()
    for event in _of(events, "scope"):
        args = event["args"]
        inside: dict[str, int] = args.get("merged", {})
        rounds[args["path"]] += args.get("count", 1)
        micros[args["path"]] += args.get("busy_us", event["dur"])
        for path, count in inside.items():
            rounds[path] += count
    rows = []
    for path in sorted(rounds):
        names = path.split(" > ")
        seconds = f"{micros[path] / 1e6:.4g} s" if micros[path] else "part of the outer scope's time"
        rows.append((f"{rounds[path]:,}", seconds, "  " * (len(names) - 1) + names[-1]))
    return _table("Scopes", ("times", "open for", "name"), rows)


def _peaks(events: Sequence[Event]) -> str:
    found = [event for event in events if event["ph"] == "i" and event.get("cat") == "peak"]
    found.sort(key=lambda event: -event["args"]["bytes"])
    rows = []
    for event in found:
        args = event["args"]
        rows.append(
            (format_bytes(args["bytes"]), f"{event['ts'] / 1e6:.3f} s", args["line"], args["path"] or "-")
        )
    return _table("Peaks of memory", ("bytes", "at", "line", "in scope"), rows)


def _missing(about: dict[str, Any]) -> str:
    """Return a note on merged and dropped events."""
    parts = []
    for what, how in about.get("merged", {}).items():
        if how.get("count"):
            within = f"{how['within_us'] / 1000:.3g} ms"
            parts.append(f"{how['count']:,} {what} are merged with others within {within}")
    parts += [f"{count:,} {what} are omitted" for what, count in about.get("dropped", {}).items() if count]
    return f"The trace is shortened to stay small: {'; '.join(parts)}." if parts else ""


def _of(events: Sequence[Event], category: str) -> Iterator[Event]:
    return (event for event in events if event["ph"] == "X" and event.get("cat") == category)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table. Its last column is text, and the others are numbers. Without rows, return ''."""
    if not rows:
        return ""
    shown = [head, *rows[:_ROWS]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head) - 1)]
    lines = [title]
    for row in shown:
        figures = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join([*figures, row[-1]]).rstrip())
    if len(rows) > _ROWS:
        lines.append(f"  and {len(rows) - _ROWS:,} more")
    return "\n".join(lines)
