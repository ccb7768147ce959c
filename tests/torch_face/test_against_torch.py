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


@pytest.mark.parametrize("base", [-2.0, 2.0, 1 - 2j, "real", "complex"])
def test_the_gradient_of_a_complex_exponent_is_pytorchs(base: Any) -> None:
    found = []
    for torch in (tensor.torch, theirs):
        bases = {
            "real": torch.tensor([-2.0, -0.5, 3.0], dtype=torch.float64),
            "complex": torch.tensor([-2.0 + 0j, 0.5j, 3.0 + 1j], dtype=torch.complex128),
        }
        exponent = torch.tensor(
            [0.5 + 1j, 2.0 - 0.25j, -1.0 + 0j], dtype=torch.complex128, requires_grad=True
        )
        torch.pow(bases.get(base, base), exponent).backward(
            torch.tensor([1 + 0j, 1j, 2 - 1j]).to(torch.complex128)
        )
        found.append(exponent.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize(
    "data",
    [[1.0, 0, 1, 0, 1, 0], [3.0, 3, 3], [[1.0, 2], [2, 3]], [np.nan, np.nan, 1], [np.nan, np.nan], [5.0]],
)
def test_equal_elements_share_the_gradient_of_a_median_as_in_pytorch(name: str, data: list[float]) -> None:
    found = []
    for torch in (tensor.torch, theirs):
        x = torch.tensor(data, requires_grad=True)
        y = getattr(x, name)()
        y.backward()
        found.append((y.item(), x.grad.tolist()))
    np.testing.assert_equal(found[0], found[1])


@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
@pytest.mark.parametrize("rcond", [None, -1.0, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 3), (3, 3)])
def test_lstsq_cuts_singular_values_as_pytorch_does(
    driver: str, rcond: float, shape: tuple[int, int]
) -> None:
    a, b = np.random.default_rng(0).random(shape), np.random.default_rng(1).random((shape[0], 2))
    found = [
        torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), rcond, driver=driver)
        for torch in (tensor.torch, theirs)
    ]
    np.testing.assert_allclose(found[0].solution.numpy(), found[1].solution.numpy(), rtol=1e-7, atol=1e-9)
    assert found[0].rank.item() == found[1].rank.item()
