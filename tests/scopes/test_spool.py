"""The file with the latest record of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import scopes
import tensor
from scopes.reports.leak_report import LeakReport
from scopes.reports.run_record import NoRecordError, RunRecord
from scopes.reports.spool import Spool, read_spool, write_spool


def test_the_latest_record_is_read_back(tmp_path: Path) -> None:
    with Spool(tmp_path / "run.dspool") as spool:
        for text in ("first", "second", "größe"):
            assert spool.write(text)
            assert read_spool(spool.path) == text


def test_a_record_that_does_not_fit_leaves_the_one_before(tmp_path: Path) -> None:
    with Spool(tmp_path / "run.dspool", size=4096) as spool:
        spool.write("small")
        assert not spool.write(os.urandom(5000).hex())
        assert read_spool(spool.path) == "small"
        assert spool.path.stat().st_size == 4096


def test_a_torn_record_leaves_the_one_before(tmp_path: Path) -> None:
    with Spool(tmp_path / "run.dspool", size=4096) as spool:
        spool.write("first")
        spool.write("second")
    whole = spool.path.read_bytes()
    read = []
    for place in range(29, len(whole)):  # behind the header
        spool.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        read.append(read_spool(spool.path))
    assert set(read) == {"first", "second"}
    assert read.count("first") == 20 + len(zlib.compress(b"second", 1))  # the head and the content of a slot


@pytest.mark.parametrize("content", [b"", b"something else", b"disposescope run\n"])
def test_other_files_are_no_records(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.dspool"
    path.write_bytes(content)
    with pytest.raises(NoRecordError, match="not a record of a run"):
        read_spool(path)


def test_a_file_of_the_user_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="is not a record of a run"):
        Spool(path)
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_record_outlives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "run.dspool"
    code = (
        "import os, signal, sys; from scopes.reports.spool import Spool; spool = Spool(sys.argv[1])\n"
        "for n in range(100): spool.write(f'record {n}')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert read_spool(path) == "record 99"


def test_a_file_with_one_record_is_replaced_when_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "child.dspool"
    for content in ("first", "größer " * 1000, ""):
        write_spool(path, content)
        assert read_spool(path) == content
    assert [each.name for each in tmp_path.iterdir()] == ["child.dspool"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(NoRecordError, match="no record yet"):
        read_spool(path)
    with pytest.raises(OSError, match="nowhere"):
        write_spool(tmp_path / "nowhere" / "child.dspool", "x")


def test_a_record_of_a_run_reads_back_equal() -> None:
    with scopes.track():
        kept = [tensor.ones((100,)) for _ in range(3)]
        report = scopes.leaks()
    record = RunRecord("train.py", ("--fast",), (("At the end:", report),), "No line.", (), ((0.5, 1200),))
    read = RunRecord.from_dict(record.to_dict())
    assert str(read) == str(record)
    assert read.to_dict() == record.to_dict()
    assert len(kept) == 3


def test_a_read_report_has_the_source_text_of_its_run() -> None:
    row = {"file": "gone.py", "line": 3, "function": "f", "text": "x = ones(3)"}
    with scopes.track():
        kept = tensor.ones((2,))
        data = scopes.leaks().to_dict()
    data["rows"][0]["lines"] = [row]
    assert "x = ones(3)" in str(LeakReport.from_dict(data))
    assert kept.shape == (2,)


def test_records_of_later_versions_and_other_data_are_refused() -> None:
    with pytest.raises(NoRecordError, match="later version"):
        RunRecord.from_dict({"schema": 99})
    with pytest.raises(NoRecordError, match="not the record of a run"):
        RunRecord.from_dict({"a": 1})
    with pytest.raises(NoRecordError, match="damaged"):
        RunRecord.from_dict({"schema": 1})
