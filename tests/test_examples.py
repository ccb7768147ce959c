"""The examples run, and show what they promise."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def test_the_digits_are_learnt_and_nothing_is_left(capsys):
    result = load("train_digits").main(["--quiet"])
    assert result.accuracy >= 0.97
    assert len({epoch.live_tensors for epoch in result.epochs}) == 1
    assert len({epoch.bytes_held for epoch in result.epochs}) == 1
    assert result.left.live_count == 0
    printed = capsys.readouterr().out
    assert "held-out accuracy" in printed
    assert "live_count: 0;" in printed


def test_a_missing_extra_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match=r"pip install 'disposescope\[examples\]'"):
        load("train_digits").main(["--quiet", "--epochs", "1"])


def test_the_tour_shows_that_nothing_is_left(capsys):
    load("scopes_tour").main()
    printed = capsys.readouterr().out
    assert "x.is_invalid = True" in printed
    assert "tensors left: 0" in printed
    assert "in the end: live_count: 0;" in printed
