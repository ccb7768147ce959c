"""The files that a tensor of PyTorch passes from birth to end: docs/architecture.md walks through them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from scopes import new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402

ROOT = Path(scopes.__file__).parents[1]
WALK = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text(encoding="utf-8")


def named_in_the_walk() -> set[str]:
    """Return the files that the section names, except the one that only switches recording on."""
    section = WALK.partition("## A tensor of PyTorch")[2].partition("\n## ")[0]
    return set(re.findall(r"`(scopes/[\w/]+\.\w+)`", section)) - {"scopes/adapters/torch/owning.py"}


def test_the_walk_names_at_most_eight_files_which_exist() -> None:
    named = named_in_the_walk()
    assert 0 < len(named) <= 8
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_tensor_passes_only_python_files_that_the_walk_names() -> None:
    passed = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "scopes"):
            passed.add(path.relative_to(ROOT).as_posix())

    with scopes.torch.owning():
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            with new_dispose_scope():
                x = torch.ones(3, requires_grad=True)  # Python code disposes it: a leaf may have a gradient
        finally:
            sys.setprofile(before)
    assert x.is_invalid
    assert "scopes/adapters/torch/disposal.py" in passed
    # JAX's adapter searches for its own arrays, if another test has loaded it.
    assert passed - named_in_the_walk() - {"scopes/adapters/jax.py"} == set()
