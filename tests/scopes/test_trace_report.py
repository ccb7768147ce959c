"""The summary of a trace file: figures, lines whose disposables are alive at the end, scopes and peaks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scopes import Timeline, new_dispose_scope
from scopes.reports.trace_report import NoTraceError, summarize
from tests.things import Thing

Event = dict[str, Any]


def moment(category: str, line: str, nbytes: int, count: int = 1) -> Event:
    args = {"line": line, "bytes": nbytes, "count": count}
    return {"ph": "X", "cat": category, "name": category, "ts": 0, "dur": 1, "args": args}


def span(path: str, micros: float, **more: Any) -> Event:
    return {"ph": "X", "cat": "scope", "name": path, "ts": 0, "dur": micros, "args": {"path": path, **more}}


def counter(name: str, live: int) -> Event:
    return {"ph": "C", "name": name, "ts": 0, "args": {"live": live}}


def peak(nbytes: int, at: float, line: str, path: str) -> Event:
    args = {"bytes": nbytes, "line": line, "path": path}
    return {"ph": "i", "cat": "peak", "name": "peak", "ts": at, "args": args}


def written(path: Path, events: list[Event], **about: Any) -> Path:
    told = {"recorder": "disposescope", "seconds": 1.23456, **about}
    path.write_text(json.dumps({"otherData": told, "traceEvents": events}), encoding="utf-8")
    return path


def lines_of(text: str, path: Path) -> list[str]:
    return [" ".join(line.split()) for line in text.replace(str(path), "PATH").splitlines() if line]


def test_the_summary_has_all_that_the_trace_tells(tmp_path: Path) -> None:
    events = [
        *(counter("bytes", live) for live in (0, 4096, 1024)),
        *(counter("disposables", live) for live in (0, 1200, 3)),
        moment("create", "a.py:1", 3000, 3),
        moment("create", "b.py:2", 9000, 5),
        moment("create", "c.py:3", 10, 2),
        moment("dispose", "a.py:1", 1000),
        moment("dispose", "b.py:2", 8500, 4),
        moment("dispose", "c.py:3", 10, 2),
        span("epoch", 2_000_000.0),
        span("epoch", 1_000_000.0),
        span("epoch > step", 10.0, count=7, busy_us=500_000.0, merged={"epoch > step > forward": 4}),
        peak(2048, 500_000, "a.py:1", ""),
        peak(4096, 250_000, "b.py:2", "epoch > step"),
    ]
    merged = {
        "scopes": {"count": 1234, "within_us": 5000.0},
        "disposables": {"count": 0, "within_us": 0},
        "samples": {"within_us": 70},
    }
    path = written(tmp_path / "trace.json", events, merged=merged, dropped={"scopes": 2, "unseen": 0})
    assert lines_of(summarize(path), path) == [
        "PATH: 1.23 s, at most 4 KiB in 1,200 disposables at once, 1 KiB in 3 at the end",
        "Alive at the end, by the line that created it",
        "alive of bytes line",
        "2 3 1.953 KiB a.py:1",
        "1 5 500 bytes b.py:2",
        "Scopes",
        "times open for name",
        "2 3 s epoch",
        "7 0.5 s step",
        "4 part of the outer scope's time forward",
        "Peaks of memory",
        "bytes at line in scope",
        "4 KiB 0.250 s b.py:2 epoch > step",
        "2 KiB 0.500 s a.py:1 -",
        (
            "The trace is shortened to stay small: 1,234 scopes are merged with others within 5 ms; "
            "2 scopes are omitted."
        ),
    ]
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert "at most 4 KiB" in summarize(path)


def test_what_a_trace_has_not_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", [])
    assert lines_of(summarize(path), path) == ["PATH: 1.23 s, nothing recorded"]


def test_long_tables_end_with_the_number_of_rows_that_are_left_out(tmp_path: Path) -> None:
    events = [moment("create", f"line {n}", 100 * n) for n in range(1, 31)]
    path = written(tmp_path / "trace.json", events)
    rows = [line for line in lines_of(summarize(path), path) if "line " in line]
    assert [row.split()[-1] for row in rows if row[0] == "1"] == [str(n) for n in range(30, 10, -1)]
    assert "10 more" in summarize(path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"otherData": {"recorder": "else"}}', b"\x1f\x8bno", b'{"otherData": 3}']
)
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(NoTraceError, match="is not a trace of scopes"):
        summarize(path)


def test_a_recorded_trace_is_summarized(tmp_path: Path) -> None:
    with Timeline() as timeline, new_dispose_scope("epoch") as scope:
        for _ in range(3):
            with new_dispose_scope("step"):
                Thing(100)
        kept = scope.detach(Thing(700))
    timeline.save(tmp_path / "trace.json")
    lines = lines_of(summarize(tmp_path / "trace.json"), tmp_path / "trace.json")
    assert any(line.startswith("1 4 700 bytes ") for line in lines)
    assert [line.split()[-1] for line in lines if line.startswith(("1 ", "3 ")) and " s " in line] == [
        "epoch",
        "step",
    ]
    assert kept.whole
