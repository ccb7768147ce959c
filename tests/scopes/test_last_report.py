"""What the watcher of a run writes when the program has ended without a report of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scopes.command.last_report import main, settings_for
from scopes.command.outputs import write_annotations, write_files, write_json
from scopes.reports.annotations import github_annotations
from scopes.reports.killed import last_words
from scopes.reports.spool import Spool, read_record
from tests.run_records import record, row

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no statuses of signals")

MADE = record(row(3, 800), row(5, 100, is_growing=True), growing=((row(5, 100).site, 2048),), at=1000.0)
KILLED = 9


@pytest.fixture(autouse=True)
def _outside_of_a_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def count_kills(killer: Path, count: int) -> None:
    killer.write_text(f"low 0\noom_kill {count}\n", encoding="ascii")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that reports a run with this record, and returns what it prints."""

    def report(
        file: Path | None, *, status: int = KILLED, end: float = 1000.0, kills: int = 0, **more: Any
    ) -> str:
        names = ("folder", "html", "json", "annotate", "killer")
        given = {**dict.fromkeys(names), "is_kept": False, **more}
        settings = settings_for(file, "train.py", **given)
        if given["killer"] is not None:
            count_kills(given["killer"], kills)  # during the run
        monkeypatch.setattr(sys, "argv", ["", "", json.dumps(settings), str(status), str(end)])
        main()
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return report


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "run.dspool"
    with Spool(path) as spool:
        spool.write(MADE.to_json())
    return path


def as_ended(ended: str) -> Any:
    return record(*MADE.latest.rows, growing=MADE.growing, at=1000.0, ended=ended, pid=MADE.pid)


def test_the_last_record_is_printed_with_how_the_run_ended(told: Any, stored: Path) -> None:
    assert told(stored) == f"\n{last_words(as_ended('killed by SIGKILL'))}\n\nthe verdict\n"
    assert "The last record is 5 s older than the end." in told(stored, end=1005.0)
    assert "train.py ended with exit status 2 (without its own report" in told(stored, status=2 << 8)


def test_without_a_record_one_line_says_how_it_ended(told: Any, tmp_path: Path) -> None:
    begin = "disposescope: train.py ended: killed by SIGKILL. There is no record of the run"
    assert told(None) == f"{begin}\n"
    assert told(tmp_path / "gone.json").startswith(f"{begin}: ")
    (tmp_path / "other.json").write_text("{}", encoding="ascii")
    assert told(tmp_path / "other.json").startswith(f"{begin}: ")


def test_page_and_json_are_written_and_annotations_only_if_wanted(
    told: Any, stored: Path, tmp_path: Path
) -> None:
    page, data = tmp_path / "run.html", tmp_path / "out.json"
    assert "::warning" not in told(stored, html=page, json=data)
    assert "What train.py kept" in page.read_text(encoding="utf-8")
    assert read_record(data).ended == "killed by SIGKILL"
    annotations = "\n".join(github_annotations(as_ended("killed by SIGKILL")))
    assert told(stored, annotate=True).endswith(f"{annotations}\n")


def test_a_record_that_is_kept_tells_how_the_run_ended(told: Any, stored: Path) -> None:
    told(stored)
    assert read_record(stored).ended is None
    told(stored, is_kept=True)
    assert read_record(stored).ended == "killed by SIGKILL"


def test_the_folder_of_the_run_is_removed(told: Any, stored: Path, tmp_path: Path) -> None:
    folder = tmp_path / "children"
    folder.mkdir()
    (folder / "file").touch()
    told(stored, folder=folder)
    assert not folder.exists()
    told(None, folder=tmp_path / "gone")


@pytest.mark.parametrize(
    ("before", "after", "is_told"), [(3, 3, False), (3, 4, True), (0, 1, True), (0, 0, False)]
)
def test_a_kill_for_memory_is_one_more_than_at_the_start(
    told: Any, stored: Path, tmp_path: Path, before: int, after: int, is_told: bool
) -> None:
    killer = tmp_path / "memory.events"
    count_kills(killer, before)
    assert ("by the kernel for memory" in told(stored, killer=killer, kills=after)) == is_told


@pytest.mark.parametrize(
    ("is_wanted", "variable", "is_written"),
    [
        (True, None, True),
        (False, "true", False),
        (None, None, False),
        (None, "true", True),
        (None, "false", False),
        (False, None, False),
    ],
)
def test_annotations_are_written_if_wanted_or_in_a_workflow(
    is_wanted: bool | None,
    variable: str | None,
    is_written: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable is not None:
        monkeypatch.setenv("GITHUB_ACTIONS", variable)
    write_annotations(MADE, is_wanted)
    expected = "".join(f"{line}\n" for line in github_annotations(MADE)) if is_written else ""
    assert capsys.readouterr() == ("", expected)


def test_each_file_is_written_though_another_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError("the disk is full")

    assert not write_files([lambda: done.append(1), fail, lambda: done.append(2)])
    assert done == [1, 2]
    assert capsys.readouterr().err == "disposescope: can't write the report: the disk is full\n"
    assert write_files([lambda: done.append(3)])
    assert write_files([])
    assert done == [1, 2, 3]


def test_a_file_of_the_users_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("mine", encoding="ascii")
    with pytest.raises(FileExistsError):
        write_json(path, MADE)
    assert path.read_text(encoding="ascii") == "mine"
