"""Functions of `tensor.torch` that follow from the methods of tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensor.torch as torch
from tensor import Tensor
from tensor.torch import functions

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="needs a checkout")
def test_the_stub_of_functions_follows_from_the_methods() -> None:
    command = [sys.executable, ".ci/write-stubs", "--check", "tensor/torch/functions.pyi"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_method_is_a_function_where_pytorch_has_both() -> None:
    theirs = pytest.importorskip("torch")
    methods = [name for name in dir(Tensor) if not name.startswith("_") and callable(getattr(Tensor, name))]
    both = {name for name in methods if callable(getattr(theirs, name, None))} - {"get_device"}
    assert both - set(dir(torch)) == set()
    assert [name for name in functions.__all__ if not hasattr(theirs, name)] == []


def test_errors_call_a_function_by_its_own_name() -> None:
    with pytest.raises(TypeError, match=r"mul.* takes a tensor first: write torch.mul\(x\)"):
        torch.mul()  # type: ignore[call-arg]
    assert torch.mul.__name__ == "multiply"


def test_a_function_in_place_writes_to_its_tensor() -> None:
    x = torch.zeros(2)
    assert torch.exp_(x) is x
    assert torch.log1p_(x).equal(torch.full((2,), 2.0).log())
