"""Programs with a leak: one command names the line first, and who holds it, and judges; pytest too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.scopes.forked import Forks
from tests.scopes.leaky_programs import ALL, PEAKS, PROGRAMS, Leaky

ROOT = Path(__file__).parents[2]

each_program = pytest.mark.parametrize("leaky", ALL.values(), ids=ALL)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("tensor") as forks:
        yield forks


@each_program
@pytest.mark.parametrize("peak", PEAKS)
def test_the_leaking_line_is_first_with_its_holder_and_fails(
    forks: Forks, leaky: Leaky, peak: str, tmp_path: Path
) -> None:
    leaky.check(forks.run(leaky.at(peak).leaking, tmp_path, "--fail-on-leak"))


@each_program
def test_the_fixed_program_passes_and_the_report_names_the_checks(
    forks: Forks, leaky: Leaky, tmp_path: Path
) -> None:
    done = forks.run(leaky.at(" ".join(PEAKS)).cured, tmp_path, "--fail-on-leak")
    assert done.status == 0, done.stderr
    assert re.search(
        r"--fail-on-leak: No line keeps more and more\. The check covers .* at \d+ moments", done.stderr
    )


TESTS = """
import importlib
import pytest

@pytest.mark.no_tensor_growth
@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("kind", ["leaking", "cured"])
def test_program(kind, number):
    importlib.import_module(f"{kind}_{number}")
"""


def test_pytest_fails_the_twelve_leaking_programs_and_passes_the_fixed_ones(tmp_path: Path) -> None:
    for number, leaky in enumerate(PROGRAMS.values()):
        (tmp_path / f"leaking_{number}.py").write_text(leaky.leaking, encoding="utf-8")
        (tmp_path / f"cured_{number}.py").write_text(leaky.cured, encoding="utf-8")
    (tmp_path / "test_programs.py").write_text(TESTS, encoding="utf-8")
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
    assert re.search(r"^=+ 12 failed, 12 passed", told, re.MULTILINE), told
    for number, leaky in enumerate(PROGRAMS.values()):
        assert f"PASSED test_programs.py::test_program[cured-{number}]" in told, told
        _, _, report = told.partition(f"test_program[leaking-{number}] has ended")
        first, *_ = re.findall(rf"leaking_{number}\.py:(\d+)", report)
        assert int(first) == leaky.line, report
    # Of five lines of each report the holders are searched for, the leaking one among them.
    named = re.findall(r"# leaks\n(?:E *)? *held by ", told)
    assert len(named) >= 10, told
