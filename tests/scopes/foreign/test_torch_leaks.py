"""Ten PyTorch programs with a leak from an issue tracker: a command names its line first, and the holder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from tests.scopes.foreign.torch_leaks import PROGRAMS
from tests.scopes.leaky_programs import Leaky

ROOT = Path(__file__).parents[3]


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "scopes", "run", "--torch", "--fail-on-leak", "program.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("leaky", PROGRAMS.values(), ids=PROGRAMS)
def test_the_leaking_line_is_first_with_its_holder(leaky: Leaky, tmp_path: Path) -> None:
    done = run(leaky.leaking, tmp_path)
    _, _, report = done.stderr.partition("has ended")
    first, *_ = re.findall(r"program\.py:(\d+)", report)
    assert int(first) == leaky.line, report
    _, _, after = report.partition(f"program.py:{leaky.line} ")
    assert re.match(rf"[^\n]*\n[^\n]*\n *held by {leaky.holder}(?: \(.* of .*\))?\n", after), report
    assert done.returncode == 1
    assert re.search(rf"--fail-on-leak: .*program\.py:{leaky.line} ", done.stderr)


@pytest.mark.parametrize("leaky", PROGRAMS.values(), ids=PROGRAMS)
def test_the_cured_program_has_no_leak(leaky: Leaky, tmp_path: Path) -> None:
    done = run(leaky.cured, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--fail-on-leak: No line keeps more and more" in done.stderr
