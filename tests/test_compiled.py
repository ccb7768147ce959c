"""Compiled modules: each has types beside it, and the examples in its docstrings are run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for package in ("scopes", "tensor", "nn") for path in (ROOT / package).rglob("*.pyx"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name_of(source: Path) -> str:
    return ".".join(source.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_each_compiled_module_has_a_stub_in_its_folder(source):
    assert source.with_suffix(".pyi").exists()


@pytest.mark.parametrize("name", [name_of(source) for source in SOURCES])
def test_examples_in_docstrings_hold(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0
