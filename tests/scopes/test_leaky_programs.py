"""Twelve programs with a leak: one command names the line first, and who holds it, and judges."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scopes.leaky_programs import PROGRAMS, Leaky

ROOT = Path(__file__).parents[2]

each_program = pytest.mark.parametrize("leaky", PROGRAMS.values(), ids=PROGRAMS)


def run(source: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source)
    command = [sys.executable, "-m", "scopes", "run", *options, "program.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@each_program
def test_the_leaking_line_is_first_with_its_holder_and_fails(leaky: Leaky, tmp_path: Path) -> None:
    done = run(leaky.leaking, tmp_path, "--fail-on-leak")
    _, _, report = done.stderr.partition("has ended")
    first, *_ = re.findall(r"program\.py:(\d+)", report)
    assert int(first) == leaky.line, report
    assert re.search(f"# leaks\n *held by {leaky.holder}\n", report), report
    assert done.returncode == 1
    assert re.search(rf"--fail-on-leak: .*program\.py:{leaky.line} ", done.stderr)


@each_program
def test_the_cured_one_passes_and_says_what_was_judged(leaky: Leaky, tmp_path: Path) -> None:
    done = run(leaky.cured, tmp_path, "--fail-on-leak")
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"--fail-on-leak: no line keeps more and more. Judged was .* at \d+ moments", done.stderr
    )
