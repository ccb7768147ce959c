"""Programs with a leak: one command names the line first, and who holds it, and judges; pytest too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.scopes.leaky_programs import PROGRAMS, Leaky

ROOT = Path(__file__).parents[2]

each_program = pytest.mark.parametrize("leaky", PROGRAMS.values(), ids=PROGRAMS)


def run(source: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "scopes", "run", *options, "program.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@each_program
def test_the_leaking_line_is_first_with_its_holder_and_fails(leaky: Leaky, tmp_path: Path) -> None:
    done = run(leaky.leaking, tmp_path, "--fail-on-leak")
    _, _, report = done.stderr.partition("has ended")
    first, *_ = re.findall(r"program\.py:(\d+)", report)
    assert int(first) == leaky.line, report
    assert re.search(f"# leaks\n *held by {leaky.holder}(?: \\(.* of .*\\))?\n", report), report
    assert done.returncode == 1
    assert re.search(rf"--fail-on-leak: .*program\.py:{leaky.line} ", done.stderr)


@each_program
def test_the_fixed_program_passes_and_the_report_names_the_checks(leaky: Leaky, tmp_path: Path) -> None:
    done = run(leaky.cured, tmp_path, "--fail-on-leak")
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"--fail-on-leak: No line keeps more and more\. The check covers .* at \d+ moments", done.stderr
    )


TESTS = """
import importlib
import pytest

@pytest.mark.no_tensor_growth
@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("kind", ["leaking", "cured"])
def test_program(kind, number):
    importlib.import_module(f"{kind}_{number}")
"""


def test_pytest_fails_each_leaking_program_and_passes_the_fixed_ones(tmp_path: Path) -> None:
    for number, leaky in enumerate(PROGRAMS.values()):
        (tmp_path / f"leaking_{number}.py").write_text(leaky.leaking, encoding="utf-8")
        (tmp_path / f"cured_{number}.py").write_text(leaky.cured, encoding="utf-8")
    (tmp_path / "test_programs.py").write_text(TESTS.replace("COUNT", str(len(PROGRAMS))), encoding="utf-8")
    plugin = (
        [] if entry_points(group="pytest11", name="disposescope") else ["-p", "disposescope.pytest_plugin"]
    )
    command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-p", "no:randomly", "-rA"]
    done = subprocess.run(
        [*command, "test_programs.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    told = done.stdout
    assert re.search(rf"^=+ {len(PROGRAMS)} failed, {len(PROGRAMS)} passed", told, re.MULTILINE), told
    for number, leaky in enumerate(PROGRAMS.values()):
        assert f"PASSED test_programs.py::test_program[cured-{number}]" in told, told
        _, _, report = told.partition(f"test_program[leaking-{number}] has ended")
        first, *_ = re.findall(rf"leaking_{number}\.py:(\d+)", report)
        assert int(first) == leaky.line, report
    # Of five lines of each report the holders are searched for, the leaking one among them.
    named = re.findall(r"# leaks\n(?:E *)? *held by ", told)
    assert len(named) >= 10, told
