"""Functions of `tensor.torch` that follow from the methods of tensors."""

from __future__ import annotations

import ast
import subprocess
import sys
from inspect import unwrap
from pathlib import Path

import pytest

import tensor.torch as torch
from tensor import Tensor
from tensor.torch import functions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the stubs that follow from the sources."""
    if not (ROOT / ".ci").is_dir():
        pytest.skip("needs a checkout")
    folder = tmp_path_factory.mktemp("stubs")
    subprocess.run([sys.executable, ROOT / ".ci/write-stubs", folder], check=True)
    return folder


def test_the_stub_of_functions_declares_each_with_its_method(stubs: Path) -> None:
    body = ast.parse((stubs / "tensor/torch/functions.pyi").read_text(encoding="utf-8")).body
    declared = {ast.unparse(x.target): ast.unparse(x.value) for x in body if isinstance(x, ast.AnnAssign)}
    assert list(declared) == functions.__all__
    for name, value in declared.items():
        method = value.removeprefix("function(Tensor.").removesuffix(")")
        assert unwrap(getattr(Tensor, method)) is unwrap(getattr(Tensor, functions.METHODS[name]))


def test_a_method_is_a_function_where_pytorch_has_both() -> None:
    theirs = pytest.importorskip("torch")
    methods = [name for name in dir(Tensor) if not name.startswith("_") and callable(getattr(Tensor, name))]
    both = {name for name in methods if callable(getattr(theirs, name, None))} - {"get_device"}
    assert both - set(dir(torch)) == set()
    assert [name for name in functions.__all__ if not hasattr(theirs, name)] == []


def test_errors_call_a_function_by_its_own_name() -> None:
    with pytest.raises(TypeError, match=r"mul.* takes a tensor first: write torch.mul\(x\)"):
        torch.mul()  # type: ignore[call-arg]
    assert (torch.mul.__name__, torch.multiply.__name__) == ("mul", "multiply")


def test_a_function_in_place_writes_to_its_tensor() -> None:
    x = torch.zeros(2)
    assert torch.exp_(x) is x
    assert torch.log1p_(x).equal(torch.full((2,), 2.0).log())
