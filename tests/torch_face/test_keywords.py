"""Operands by PyTorch's names: ``torch.mul(input=x, other=y)``. PyTorch's own schemas tell the names."""

from __future__ import annotations

from typing import Any

import pytest

import tensor.torch
from tensor.torch import functions

# The types of functions follow from the methods, which take these operands by position.
torch: Any = tensor.torch
theirs = pytest.importorskip("torch")

VECTOR, MATRIX = [1.0, 2.0], [[1.0, 2.0], [3.0, 5.0]]
# Pairs of operands. Each function takes one of them at least.
PAIRS = (
    (MATRIX, MATRIX),
    (MATRIX, VECTOR),
    (VECTOR, VECTOR),
    ([MATRIX], [MATRIX]),
    ([6, 5], [3, 1]),
    (VECTOR, [0, 1]),
    (VECTOR, 3.0),
    (VECTOR, [True, False]),
    (VECTOR, [0.25, 0.5]),
    ([[1.0, 2.0, 3.0]], [[4.0, 5.0, 7.0]]),
)
# `bernoulli` is random, and the name in the schema of `tensor_split` is not one of Python.
EXCLUDED = ("bernoulli", "tensor_split")


def operand_of(schema: Any) -> str | None:
    """Return the name of the second operand, if `schema` is of a function of two tensors."""
    arguments = schema.arguments
    is_binary = len(arguments) > 1 and all(str(x.type) == "Tensor" for x in arguments[:2])
    if not is_binary or arguments[0].name != "self" or "out" in schema.overload_name:
        return None
    others = [x for x in arguments[2:] if not x.has_default_value()]
    return None if others else arguments[1].name


def binary_functions() -> dict[str, str]:
    """Return the functions of two tensors by name, each with the name of its second operand."""
    found: dict[str, str] = {}
    for schema in theirs._C._jit_get_all_schemas():
        name, operand = schema.name.removeprefix("aten::"), operand_of(schema)
        if (
            name in functions.__all__
            and name not in EXCLUDED
            and hasattr(theirs, name)
            and operand is not None
        ):
            found[name] = operand
    return found


def values(result: Any) -> list[float]:
    """Return the elements of a tensor, or of a tuple of tensors, in one list."""
    if isinstance(result, tuple):
        return [value for part in result for value in values(part)]
    return result.reshape(-1).tolist() if hasattr(result, "reshape") else [result]


BINARY = binary_functions()


def test_the_schemas_of_pytorch_name_the_operands() -> None:
    assert len(BINARY) > 50
    assert {BINARY["mul"], BINARY["pow"], BINARY["mm"]} == {"other", "exponent", "mat2"}


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize("name", sorted(BINARY))
def test_a_function_of_two_tensors_takes_them_by_pytorchs_names(name: str) -> None:
    compared = 0
    for x, y in PAIRS:
        try:
            expected = getattr(theirs, name)(input=theirs.tensor(x), **{BINARY[name]: theirs.tensor(y)})
        except (RuntimeError, TypeError, IndexError):
            continue
        found = getattr(torch, name)(input=torch.tensor(x), **{BINARY[name]: torch.tensor(y)})
        by_place = getattr(torch, name)(torch.tensor(x), **{BINARY[name]: torch.tensor(y)})
        compared += 1
        for one in (found, by_place):
            assert values(one) == pytest.approx(values(expected), rel=1e-5, nan_ok=True)
    assert compared


def test_other_names_of_pytorch() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    assert torch.lerp(x, weight=0.5, end=y).tolist() == [2.0, 3.5]
    assert torch.pow(2, exponent=x).tolist() == [2.0, 4.0]
    assert [part.item() for part in torch.split(tensor=x, split_size_or_sections=1)] == [1.0, 2.0]
    assert torch.swapaxes(torch.ones(2, 3), axis0=0, axis1=1).shape == (3, 2)
    assert torch.linalg.det(A=torch.eye(2)).item() == 1.0
    assert torch.linalg.inv(A=torch.eye(2)).tolist() == torch.eye(2).tolist()
    assert torch.linalg.slogdet(A=torch.eye(2)).logabsdet.item() == 0.0


def test_an_operand_that_a_function_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="other"):
        torch.sum(torch.ones(2, 2), other=1)
    with pytest.raises(TypeError, match="exponent"):
        torch.mul(torch.ones(2), exponent=2)


def test_autograd_has_the_module_function() -> None:
    from tensor.torch.autograd.function import Function, FunctionCtx, once_differentiable

    assert torch.autograd.function.Function is Function is torch.autograd.Function
    assert (FunctionCtx, once_differentiable) == (
        torch.autograd.FunctionCtx,
        torch.autograd.once_differentiable,
    )
