"""Where new users stumbled in their first hour: each of these places works, or says what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import scopes
import tensor
from scopes import statistics
from scopes.reports.history import History
from scopes.reports.pages import Curve, chart_of
from tensor import memory

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", ["scopes", "tensor"])
def test_an_import_from_the_source_folder_says_what_to_do(tmp_path: Path, package: str) -> None:
    for name in ("scopes", "tensor"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=lambda _, names: _compiled(names))
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import {package}"],  # -S: without the editable installation
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ImportError")]
    assert f"the source folder {str(tmp_path / 'scopes')!r} has no compiled modules" in line
    assert "run Python from another folder, or install with `pip install --editable .`" in line


def _compiled(names: list[str]) -> list[str]:
    return [name for name in names if Path(name).suffix in (".so", ".pyd")]


def test_the_chart_of_a_report_shows_no_line_above_the_whole() -> None:
    w = tensor.ones((10,), requires_grad=True)
    total = tensor.zeros(())
    history = History()
    with scopes.track():
        history.begin()
        for _ in range(200):
            total = total + (w * w).sum()  # a graph of many operations and few bytes
        report = history.look()
        history.end()
    chart = history.chart(report)
    lines = [_highest(path) for path in re.findall(r'class="line c\d" d="([^"]*)"', chart)]
    (area,) = [_highest(path) for path in re.findall(r'class="area" d="([^"]*)"', chart)]
    assert lines
    assert area <= min(lines)


def test_the_chart_of_a_report_has_a_scale_of_bytes() -> None:
    chart = chart_of(Curve("all", [(0.0, 0), (1.0, 40 * 2**20)]), [])
    marks = re.findall(r'<span style="top: ([\d.]+)%">([^<]*)</span>', chart)
    assert [label for _, label in marks] == ["16 MiB", "32 MiB"]
    (area,) = [_highest(path) for path in re.findall(r'class="area" d="([^"]*)"', chart)]
    (floor,) = [float(y) for y in re.findall(r'class="axis" d="M\d+ (\d+)', chart)]
    (height,) = [float(size) for size in re.findall(r'viewBox="0 0 \d+ (\d+)"', chart)]
    for (top, _), share in zip(marks, (16 / 40, 32 / 40), strict=True):
        assert float(top) / 100 * height == pytest.approx(floor - share * (floor - area), abs=0.2)


@pytest.mark.parametrize("highest", [0, 1, 2, 3, 1000])
def test_a_chart_of_a_few_bytes_has_few_marks(highest: int) -> None:
    chart = chart_of(Curve("all", [(0.0, 0), (1.0, highest)]), [])
    assert 1 <= chart.count('class="mark"') <= 3


def _highest(path: str) -> float:
    """Return the highest point of an SVG path, as its distance from the top."""
    return min(map(float, re.findall(r"V([\d.]+)", path)))


def test_figures_show_as_tables_in_notebooks() -> None:
    x = tensor.ones((1024,))
    assert "<th>bytes_live</th>" in memory.statistics()._repr_html_()
    assert "<th>live_count</th>" in statistics.snapshot()._repr_html_()
    assert "<th>live_count</th>" in statistics._repr_html_()
    assert "live_count=" in repr(statistics.snapshot())
    x.dispose()
