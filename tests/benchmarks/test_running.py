"""Processes of their own, the program, and what it writes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import benchmarks.contenders
from benchmarks.__main__ import main
from benchmarks.catalogue import case_of
from benchmarks.contenders import NUMPY, OURS, MissingContenderError, library
from benchmarks.harness import Manner
from benchmarks.levels import environment
from benchmarks.running import run_alone, run_on_pythons
from benchmarks.workers import Worker

pytest.importorskip("rich")

ADD = "ops/add 1"


@pytest.fixture
def tiny():
    return replace(case_of(ADD), contenders=(OURS, NUMPY), rounds=2, repetitions=3)


def test_each_contender_works_in_a_process_of_its_own(tiny):
    (result,) = run_alone([tiny], Manner())
    assert set(result.summaries) == {OURS, NUMPY}
    assert all(summary.rounds == 2 and summary.median > 0 for summary in result.summaries.values())


def test_ours_runs_on_several_interpreters_in_turn(tiny):
    (result,), versions = run_on_pythons([tiny], [sys.executable], Manner())
    name = sys.version.split()[0]
    assert list(result.summaries) == [name]
    assert set(versions[name]) == {"python", "numpy"}


def test_a_worker_takes_case_after_case():
    with Worker(NUMPY) as worker:
        for name in (ADD, "ops/mean 1"):
            assert worker.check(name) == []
            assert worker.build(name)(2) > 0
            worker.drop()
        (first, *_) = worker.check("training/64-128-10 x 64, sgd")
        assert first > 0


def test_a_worker_that_fails_says_where(capfd):
    with Worker(NUMPY) as worker, pytest.raises(RuntimeError, match=r"process of numpy has ended at 'build'"):
        worker.build("ops/no such case")
    assert "ValueError" in capfd.readouterr().err


def test_ours_alone_needs_no_pytorch(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(benchmarks.contenders, "has_torch", lambda: False)
    path = tmp_path / "results.json"
    assert main(["--quick", "--only-ours", "--only", "^scopes/empty$", "--json", str(path)]) == 0
    assert "scopes/empty" in capsys.readouterr().out
    results = json.loads(path.read_text(encoding="utf-8"))
    (case,) = results["cases"]
    assert list(case["contenders"]) == [OURS]
    assert case["ratios"] == {"torch/ours": None, "numpy/ours": None}
    assert results["machine"]["threads"] == 2


def test_missing_pytorch_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(benchmarks.contenders, "has_torch", lambda: False)
    with pytest.raises(MissingContenderError, match=r"pip install --group bench.*--only-ours"):
        library.__wrapped__("torch")


def test_a_pattern_that_matches_nothing_lists_the_cases(capsys):
    assert main(["--only", "no such case"]) == 2
    assert "scopes/empty" in capsys.readouterr().err


def test_a_level_holds_every_contender_to_its_instruction_set(tmp_path):
    path = tmp_path / "level.json"
    flags = ["--level=baseline", "--quick", "--only-ours", "--only=fresh/add 10,000", f"--json={path}"]
    assert main(flags) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["level"] == "baseline"
    assert [case["name"] for case in report["cases"]] == ["fresh/add 10,000"]


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="no instruction set is called 'sse': write one of baseline, avx2"):
        environment("sse")
