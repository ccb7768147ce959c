"""The runs of `tests.hostile_runs`: few here, and as many as docs/reliability.md tells by `make soak`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of a process are those of POSIX")

USUAL = {
    "flat": 100_000,
    "interrupts": 200,
    "address_space": 6,
    "open_files": 20,
    "full_disk": 40,
    "killed_writers": 20,
    "forks": 30,
}
LONG = {
    "flat": 10_000_000,
    "interrupts": 10_000,
    "address_space": 200,
    "open_files": 1000,
    "full_disk": 1000,
    "killed_writers": 1000,
    "forks": 1000,
}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads sizes from /proc")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *USUAL.items(),
        *[
            pytest.param(name, count, marks=pytest.mark.soak, id=f"{name}-long")
            for name, count in LONG.items()
        ],
    ],
)
def test_a_hostile_run_loses_nothing(name, count):
    program = [sys.executable, "-m", "tests.hostile_runs", name, str(count)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert count in figures.values()
    sys.stdout.write(f"{name}: {figures}\n")  # shown by pytest -rP


def test_the_page_about_reliability_names_tests_that_exist():
    root = Path(__file__).parents[1]
    named = set(
        re.findall(r"`(tests/[^`]+\.py)`", (root / "docs" / "reliability.md").read_text(encoding="utf-8"))
    )
    assert "tests/test_hostile_runs.py" in named
    assert [name for name in sorted(named) if not (root / name).exists()] == []
