"""``pytest --tensor-peaks`` for PyTorch's tensors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")
from scopes.testing.peaks import Peak, load

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
SOURCE = """
import torch

def test_model():
    model = torch.nn.Sequential(torch.nn.Linear(50, 100), torch.nn.Tanh(), torch.nn.Linear(100, 10))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.ones(1000, 50)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""


def run(pytester: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=source)
    given = ["-p", "no:cacheprovider", "-p", "disposescope.pytest_plugin", "--tensor-peaks=peaks.lock"]
    return pytester.runpytest_subprocess(*given, *args)


def test_peaks_are_within_1_percent_and_growth_names_its_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    peaks: list[Peak] = []
    for _ in range(2):
        run(pytester, SOURCE, "--update-peaks").assert_outcomes(passed=1)
        peaks.append(load(Path("peaks.lock").read_text(encoding="utf-8"))["test_it.py::test_model"])
    figures = [peak.figures["torch"] for peak in peaks]
    assert max(figures) <= 1.01 * min(figures)
    saved = 1000 * (100 + 10) * 4  # which only graphs hold, with the batch
    assert min(figures) >= saved + 1000 * 50 * 4
    assert sum(line.nbytes for line in peaks[0].lines) == pytest.approx(figures[0], rel=0.01)
    result = run(pytester, SOURCE.replace("1000, 50)", "1000, 50)\n    more = torch.ones(20_000)"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*+78.12 KiB (80,000 bytes, new)", "      more = torch.ones(20_000)"])
