"""`make test-suites` opens a scope around each call of a library, and finds the tests that this breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = """
import torch

kept = []


def remember(x):
    kept.append(x * 2)
    return again(x) + 1


def again(x):
    return x + kept[-1]


def last():
    return kept[-1]
"""
TESTS = """
import torch
from library import last, remember
from scopes import current_dispose_scope


def test_results_outlive_their_call():
    assert remember(torch.ones(2)).sum() == 8
    assert current_dispose_scope() is None


def test_the_library_keeps_a_tensor():
    remember(torch.ones(2))
    assert last().sum() == 4
"""


def outcomes(folder: Path, *options: str, **environment: str) -> dict[str, list[object]]:
    (folder / "library.py").write_text(LIBRARY)
    (folder / "test_library.py").write_text(TESTS)
    written = folder / "outcomes"
    written.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "suite_outcomes", "-p", "suite_calls", "-p"]
    command += ["no:cacheprovider", "--call=library:*", f"--outcomes={written}", *options]
    paths = os.pathsep.join([str(ROOT / "tests/suites/plugins"), str(ROOT)])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in written.read_text().splitlines()]
    return {name.partition("::test_")[2]: [outcome, calls] for name, outcome, _, _, calls in found}


def test_only_the_outermost_calls_have_scopes_and_plain_runs_count_the_same_calls(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == {
        "results_outlive_their_call": ["passed", 1],
        "the_library_keeps_a_tensor": ["passed", 2],
    }


@pytest.mark.parametrize("mode", ["owning", "exact"])
def test_a_test_fails_if_the_scope_of_a_call_ends_what_it_uses_later(tmp_path: Path, mode: str) -> None:
    # A plain folder is the user's own code, so its global list keeps nothing.
    found = outcomes(tmp_path, f"--call-scopes={mode}")
    assert found["results_outlive_their_call"] == ["passed", 1]
    assert found["the_library_keeps_a_tensor"] == ["failed", 2]


def test_a_test_passes_if_the_library_is_named(tmp_path: Path) -> None:
    found = outcomes(tmp_path, "--call-scopes=owning", DISPOSESCOPE_TORCH_LIBRARIES="library")
    assert found["the_library_keeps_a_tensor"] == ["passed", 2]


def test_a_name_that_no_function_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--call library:missing: no function has such a name"):
        outcomes(tmp_path, "--call=library:missing")
