"""minGPT runs with its imports changed, and gives PyTorch's losses from the same weights."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("mingpt.py")


def program(torch: str) -> Any:
    """Return the program with `torch` in its imports instead of PyTorch."""
    source = PROGRAM.read_text(encoding="utf-8")
    source = source.replace("import torch.nn as nn", f"import {torch}.nn as nn")
    source = source.replace("from torch.nn import", f"from {torch}.nn import")
    source, count = re.subn("^import torch$", f"import {torch} as torch", source, flags=re.MULTILINE)
    assert count == 1
    module = ModuleType(f"mingpt_on_{torch.replace('.', '_')}")
    exec(compile(source, PROGRAM.name, "exec"), module.__dict__)
    return module


def test_mingpt_learns_with_its_imports_changed() -> None:
    _, losses, sorted_digits = program("tensor.torch").run(None, 60)
    assert losses[-1] < losses[0] / 2
    assert [len(row) for row in sorted_digits] == [12] * 8


def test_losses_are_pytorchs_to_five_digits() -> None:
    pytest.importorskip("torch")
    weights, expected, generated = program("torch").run(None, 30)
    _, found, ours = program("tensor.torch").run(weights, 30)
    assert found == pytest.approx(expected, rel=1e-5)
    assert ours == generated
