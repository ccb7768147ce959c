"""``disposescope diff``: the lines of two runs, matched by their text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import scopes
from scopes import LeakReport, LeakRow, Line, Site
from scopes.reports.differences import DifferenceRow, Differences, differences
from scopes.reports.history import History
from scopes.reports.run_record import NoRecordError, RunRecord
from scopes.reports.runs import record_of
from scopes.reports.spool import Spool, read_record

Entry = tuple[int, str, int]


def record(
    *entries: Entry, function: str = "step", file: str = "/a/train.py", growing: tuple[int, ...] = ()
) -> RunRecord:
    """The record of a run whose lines, given as number, text and bytes, are in one function."""
    sites = [Site((Line(file, number, function, text),)) for number, text, _ in entries]
    rows = [
        LeakRow(site, ("Tensor",), 1, nbytes, 0.0, 0.0, ())
        for site, (_, _, nbytes) in zip(sites, entries, strict=True)
    ]
    lines = [(site, 1) for site in sites if site.line in growing]
    return RunRecord("train.py", (), (("ended", LeakReport(tuple(rows), 1)),), "", tuple(lines), ())


def pairs(found: Differences) -> set[tuple[int | None, int | None]]:
    """The numbers of each line before and after."""
    return {
        (None if row.before is None else row.before.line, None if row.after is None else row.after.line)
        for row in found.rows
    }


def only(found: Differences) -> DifferenceRow:
    (row,) = found.rows
    return row


def test_lines_that_moved_are_matched_by_their_text() -> None:
    before = record((10, "a = f()", 100), (12, "b = g()", 200))
    after = record((30, "a = f()", 100), (35, "b = g()", 250))
    found = differences(before, after)
    assert pairs(found) == {(10, 30), (12, 35)}
    assert [(row.status, row.change, row.is_moved) for row in found.rows] == [
        ("grew", 50, True),
        ("same", 0, True),
    ]
    assert "train.py:12 -> 35 in step" in str(found)


def test_lines_that_came_and_went_have_no_partner() -> None:
    found = differences(record((10, "a = f()", 100)), record((10, "kept.append(out)", 900)))
    assert pairs(found) == {(10, None), (None, 10)}
    assert [(row.status, row.change) for row in found.rows] == [("new", 900), ("gone", -100)]


def test_a_line_whose_text_changed_is_matched_with_the_most_similar_one() -> None:
    before = record((10, "w = ones((64, 100))", 100), (11, "v = ones((64, 200))", 100))
    after = record((12, "v = ones((64, 300))", 150), (13, "w = ones((64, 101))", 101))
    found = differences(before, after)
    assert pairs(found) == {(10, 13), (11, 12)}
    assert all(row.is_changed for row in found.rows)
    assert "before: v = ones((64, 200))" in str(found)


def test_equal_lines_keep_their_order_when_all_of_them_move() -> None:
    before = record((10, "x = f(x)", 1), (12, "x = f(x)", 2))
    after = record((12, "x = f(x)", 1), (14, "x = f(x)", 2))
    assert pairs(differences(before, after)) == {(10, 12), (12, 14)}


def test_of_equal_lines_the_one_that_did_not_move_is_the_same() -> None:
    before = record((12, "x = f(x)", 2))
    after = record((10, "x = f(x)", 1), (12, "x = f(x)", 2))
    assert pairs(differences(before, after)) == {(12, 12), (None, 10)}


def test_a_line_that_moved_to_another_function_is_found() -> None:
    before = record((10, "a = f()", 100), function="step")
    after = record((40, "a = f()", 100), function="train_step")
    row = only(differences(before, after))
    assert row.is_moved
    assert "train.py:10 in step -> 40 in train_step" in str(differences(before, after))


def test_a_project_in_another_folder_has_the_same_lines() -> None:
    before = record((10, "a = f()", 100), file="/home/me/project/train.py")
    after = record((10, "a = f()", 100), file="/build/project/train.py")
    row = only(differences(before, after))
    assert row.status == "same"
    assert not row.is_moved


def test_without_source_a_line_is_known_by_its_number() -> None:
    found = differences(record((10, "", 1), (11, "", 2)), record((11, "", 2), (12, "", 3)))
    assert pairs(found) == {(10, None), (11, 11), (None, 12)}


def test_a_line_that_begins_to_grow_says_so() -> None:
    before, after = record((10, "a = f()", 9)), record((11, "a = f()", 9), growing=(11,))
    row = only(differences(before, after))
    assert (row.is_growing_before, row.is_growing_after) == (False, True)
    assert "now grows" in str(differences(before, after))
    assert "no longer grows" in str(differences(after, before))


def test_the_moment_at_which_a_line_kept_most_counts() -> None:
    low, high = record((10, "a = f()", 100)), record((10, "a = f()", 700))
    both = RunRecord("train.py", (), (*low.parts, *high.parts), "", (), ())
    found = differences(low, both)
    assert (only(found).bytes_before, only(found).bytes_after) == (100, 700)
    assert (found.bytes_before, found.bytes_after) == (100, 700)


def test_records_of_several_depths_are_compared_by_the_lines_that_both_have() -> None:
    inner, one, other = (
        Line("/a/train.py", n, "f", text) for n, text in ((3, "ones()"), (7, "f()"), (9, "f(2)"))
    )
    deep = LeakReport(
        tuple(LeakRow(Site((inner, caller)), ("Tensor",), 1, 100, 0, 0, ()) for caller in (one, other)), 1
    )
    flat = LeakReport((LeakRow(Site((inner,)), ("Tensor",), 1, 150, 0, 0, ()),), 1)
    records = [RunRecord("train.py", (), (("ended", part),), "", (), ()) for part in (deep, flat)]
    row = only(differences(*records))
    assert (row.bytes_before, row.bytes_after, row.count_before) == (200, 150, 2)


# Two versions of a script, and the command.

BEFORE = """
import tensor
kept = []

def model():
    return tensor.ones((100, 100))

def step():
    x = tensor.ones((64, 100))
    kept.append(x * 2)

m = model()
for _ in range(20):
    step()
"""
AFTER = """
import tensor
kept = []

def step():
    # a comment
    x = tensor.ones((64, 100))
    kept.append(x * 2)
    kept.append(x.exp())

def model():
    return tensor.ones((100, 105))

m = model()
for _ in range(20):
    step()
"""


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def recorded(path: Path, source: str) -> Path:
    """Run the script `path`, and return the file of its record."""
    path.parent.mkdir()
    path.write_text(source, encoding="utf-8")
    with scopes.track():
        history = History()
        history.begin()
        exec(compile(source, str(path), "exec"), {"__name__": "__main__"})
        run = record_of(history, str(path))
        history.end()
    file = path.with_suffix(".dspool")
    with Spool(file) as spool:
        spool.write(run.to_json())
    return file


def diff(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scopes", "diff", *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return recorded(tmp_path / "a" / "train.py", BEFORE), recorded(tmp_path / "b" / "train.py", AFTER)


def test_two_versions_of_a_script_are_compared(runs: tuple[Path, Path]) -> None:
    found = differences(*map(read_record, runs))
    by_text = {(row.after or row.before or Site(())).text: row for row in found.rows}
    assert set(by_text) == {"kept.append(x * 2)", "kept.append(x.exp())", "return tensor.ones((100, 105))"}
    kept, exponential, model = (
        by_text[text]
        for text in ("kept.append(x * 2)", "kept.append(x.exp())", "return tensor.ones((100, 105))")
    )
    assert (kept.status, kept.is_moved, kept.bytes_after) == ("same", True, 20 * 64 * 100 * 4)
    assert (exponential.status, exponential.change) == ("new", 20 * 64 * 100 * 4)
    assert (model.status, model.change, model.is_changed) == ("grew", 100 * 5 * 4, True)
    assert (model.before, model.after) != (None, None)
    numbers = line_of(BEFORE, "x * 2"), line_of(AFTER, "x * 2")
    assert f"train.py:{numbers[0]} -> {numbers[1]} in step" in str(found)


def test_the_command_prints_and_writes_the_differences(runs: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = diff(*runs, "--html", page)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "kept.append(x.exp())" in ran.stdout
    assert "1 grew, 1 new, 2 moved" in ran.stdout
    assert "kept.append(x.exp())" in page.read_text(encoding="utf-8")


def test_the_command_prints_json(runs: tuple[Path, Path]) -> None:
    data = json.loads(diff(*runs, "--json").stdout)
    assert data["schema"] == 1
    assert [row["status"] for row in data["rows"]] == ["new", "grew", "same"]
    assert data["change"] == data["bytes_after"] - data["bytes_before"] > 0


def test_the_records_of_two_real_runs_are_compared(tmp_path: Path) -> None:
    for name, source in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / "train.py").write_text(source, encoding="utf-8")
        record = tmp_path / f"{name}.dspool"
        command = [sys.executable, "-m", "scopes", "run", "--record", str(record), str(tmp_path / "train.py")]
        subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    ran = diff(tmp_path / "before.dspool", tmp_path / "after.dspool")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "1 grew, 1 new, 2 moved" in ran.stdout
    assert "kept.append(x.exp())" in ran.stdout


def test_growth_fails_the_command_only_from_the_given_size_on(runs: tuple[Path, Path]) -> None:
    largest = differences(*map(read_record, runs)).largest_growth
    assert diff(*runs, "--fail-on-growth", f"{largest}B").returncode == 1
    assert diff(*runs, "--fail-on-growth", f"{largest + 1}B").returncode == 0
    assert diff(runs[0], runs[0], "--fail-on-growth", 0).returncode == 0


def test_a_record_as_json_is_read_too(runs: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(read_record(runs[0]).to_json(), encoding="utf-8")
    assert str(read_record(file)) == str(read_record(runs[0]))


@pytest.mark.parametrize("content", [b"", b"text", b"{}", b"[1]", b"\xff\xfe"])
def test_a_file_without_a_record_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(NoRecordError, match="notes"):
        read_record(file)
    ran = diff(file, file)
    assert ran.returncode == 2
    assert "record" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ran = diff(tmp_path / "before.dspool", tmp_path / "after.dspool")
    assert ran.returncode == 2
    assert "before.dspool: No such file or directory" in ran.stderr
