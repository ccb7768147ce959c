"""Lines written for PyTorch give the same on `tensor.torch`: values, dtypes, fields, errors, gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensor.torch
from tests.torch_face.expressions import CALLS, DIFFERENTIABLE, ERRORS, assert_same, plain, recorded, values

theirs = pytest.importorskip("torch")


def run(torch: Any, line: str, **given: Any) -> Any:
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, **values(torch), **given}
    return eval(line, names)


@pytest.mark.parametrize("line", CALLS)
def test_line_of_code_has_the_same_result_in_pytorch(line: str) -> None:
    expected = run(theirs, line)
    assert_same(plain(run(tensor.torch, line)), plain(expected))
    # So that the recorded results, which serve where PyTorch is missing, are PyTorch's.
    assert_same(recorded()[line], plain(expected))


@pytest.fixture
def checked_distributions() -> Iterator[None]:
    """Let PyTorch check the arguments of distributions: torch.compile turns that off in its process."""
    kind = theirs.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(True)
    yield
    kind.set_default_validate_args(before)


@pytest.mark.parametrize("line", ERRORS)
def test_an_error_is_of_the_class_that_pytorch_raises(line: str, checked_distributions: None) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 -- whatever PyTorch raises
        run(theirs, line)
    with pytest.raises(expected.type):
        run(tensor.torch, line)


@pytest.mark.parametrize("line", DIFFERENTIABLE)
def test_gradients_are_pytorchs(line: str) -> None:
    found = []
    for torch in (tensor.torch, theirs):
        x = values(torch)["x"].double().requires_grad_()
        y = run(torch, line, x=x)
        weights = torch.arange(1, y.numel() + 1).double().reshape(y.shape)
        (y * weights).sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6, atol=1e-9)
