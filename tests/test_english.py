"""``.ci/check-english`` measures sentences and finds odd words."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("textstat")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader = SourceFileLoader("check_english", str(ROOT / ".ci" / "check-english"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_an_odd_word_is_reported_with_its_line_and_what_to_write(check: ModuleType) -> None:
    text = "A scope ends.\n\nIt disposes tensors in\nplace of the user.\n"
    assert check.odd_words(ROOT / "page.md", text) == ["page.md:3: 'in place of'; write instead: instead of"]


def test_names_of_tests_are_read_as_sentences(check: ModuleType) -> None:
    text = check.with_names_as_sentences("x = 1\ndef test_a_hook_runs_no_more() -> None:\n")
    (found,) = check.odd_words(ROOT / "test_a.py", text)
    assert found == "test_a.py:2: 'no more'; write instead: no longer"


def test_prose_has_no_code_tables_and_headings(check: ModuleType) -> None:
    page = "# Title\n\nCall `x.dispose()` on\n[each](a.md) tensor:\n\n```py\nx = 1\n```\n\n| a |\n\n- 3.11\n"
    assert check.prose(page) == "Call name on each tensor.\n311."


def test_the_documentation_is_plain_english() -> None:
    pytest.importorskip("textstat")
    run = subprocess.run(
        [sys.executable, ROOT / ".ci" / "check-english"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"[\d.]+ in a sentence, Flesch reading ease [\d.]+, 0 odd", run.stdout)
