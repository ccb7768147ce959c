"""Arguments by PyTorch's names: ``torch.mul(input=x, other=y)``, ``x.view(size=(2, 3))``.

PyTorch's own schemas tell the names.
"""

from __future__ import annotations

from collections.abc import Callable
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


# Names in schemas that do not belong to Python's signature, that no CPU tensor has a use for, or that
# `tensor.torch` refuses, with the reason.
NOT_NAMES = {
    "out", "layout", "names", "generator", "pin_memory", "sparse_grad", "out_dtype", "memory_format",
    "cudnn_enable", "cudnn_enabled", "implicit", "low_memory",
}  # fmt: skip
REFUSED = {
    ("is_pinned", "device"): "deprecated: memory is never pinned",
    ("pin_memory", "device"): "deprecated: memory is never pinned",
    ("random_", "from"): "a word of Python: from_, or the first argument",
    ("uniform_", "from"): "a word of Python: from_, or the first argument",
    ("tensor_split", "tensor_indices_or_sections"): "indices_or_sections takes a tensor",
    ("isin", "test_element"): "documented as test_elements, which may be a number",
    ("to", "other"): "PyTorch's signature in Python calls it `tensor`, and nobody names it",
    ("copy_", "other"): "PyTorch's signature in Python calls it `src`",
    ("view", "dtype"): "the bytes of a tensor keep their dtype, as the error says",
    **{
        ("result_type", name): "it takes any number of tensors, dtypes and numbers"
        for name in ("tensor", "other", "scalar", "scalar1", "scalar2")
    },
}


class Nothing:
    """What no function takes. A function that knows the keyword finds fault with the value, not the name."""


def takes(function: Callable[..., Any], before: tuple[Any, ...], name: str) -> bool:
    """Return whether `function` knows the keyword `name`."""
    try:
        function(*before, **{name: Nothing()})
    except TypeError as error:
        text = str(error)
        return not any(part in text for part in ("unexpected keyword", "positional-only", "no keyword"))
    except (RuntimeError, ValueError, IndexError, AttributeError, NotImplementedError):
        return True
    return True


def schemas() -> list[Any]:
    """Return the schemas of methods and functions that take a tensor first, without those of ``out=``."""
    found = []
    for schema in theirs._C._jit_get_all_schemas():
        arguments = schema.arguments
        is_named = schema.name.startswith("aten::") and not schema.name.startswith("aten::__")
        if not is_named or not arguments or str(arguments[0].type) != "Tensor":
            continue
        if any(x.is_out or "Dimname" in str(x.type) for x in arguments):
            continue
        found.append(schema)
    return found


def names_of(library: str) -> dict[str, set[str]]:
    """Return the names of arguments of the methods ("Tensor") or functions ("torch") that both have."""
    theirs_of = theirs.Tensor if library == "Tensor" else theirs
    ours_of = torch.Tensor if library == "Tensor" else torch
    kind = "method_descriptor" if library == "Tensor" else "builtin_function_or_method"
    found: dict[str, set[str]] = {}
    for schema in schemas():
        name = schema.name.removeprefix("aten::")
        if type(getattr(theirs_of, name, None)).__name__ != kind or not hasattr(ours_of, name):
            continue
        names = ["input" if x.name == "self" else x.name for x in schema.arguments]
        # The tensor of a method is one of its schema's arguments, in most the first.
        found.setdefault(name, set()).update(set(names) - {"input"} if library == "Tensor" else names)
    return found


@pytest.mark.parametrize("library", ["Tensor", "torch"])
def test_each_method_and_function_takes_pytorchs_names(library: str) -> None:
    found = names_of(library)
    assert len(found) > 300
    owner = torch.Tensor if library == "Tensor" else torch
    refused = set()
    for function, names in found.items():
        for name in names - NOT_NAMES:
            before = () if name == "input" and library == "torch" else (torch.ones(2, 2),)
            if not takes(getattr(owner, function), before, name):
                refused.add((function, name))
    assert refused - REFUSED.keys() == set()


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda _, x: x.mul(other=x),
    "floor_divide": lambda _, x: x.floor_divide(other=2),
    "pow": lambda _, x: x.pow(exponent=2),
    "pow_": lambda _, x: x.clone().pow_(exponent=2),
    "remainder": lambda _, x: x.remainder(other=2),
    "lerp": lambda _, x: x.lerp(end=x + 1, weight=0.5),
    "le": lambda _, x: x.le(other=3),
    "logical_and": lambda _, x: x.logical_and(other=x > 2),
    "atan2": lambda _, x: x.atan2(other=x + 1),
    "mm": lambda _, x: x.mm(mat2=x.t()),
    "bmm": lambda _, x: x[None].bmm(mat2=x.t()[None]),
    "mv": lambda _, x: x.mv(vec=x[0]),
    "dot": lambda _, x: x[0].dot(tensor=x[1]),
    "outer": lambda _, x: x[0].outer(vec2=x[1]),
    "clamp": lambda _, x: x.clamp(min=2, max=4),
    "sum": lambda _, x: x.sum(dim=0, keepdim=True),
    "max of two": lambda _, x: x.max(other=4 - x),
    "min of two": lambda t, x: t.min(input=x, other=4 - x),
    "nanmean": lambda t, x: x.nanmean(dim=0, dtype=t.float64),
    "view": lambda _, x: x.view(size=(3, 2)),
    "reshape": lambda _, x: x.reshape(shape=(-1,)),
    "permute": lambda _, x: x.permute(dims=(1, 0)),
    "expand": lambda _, x: x[:1].expand(size=(4, 3)),
    "broadcast_to": lambda _, x: x[:1].broadcast_to(size=(4, 3)),
    "tile": lambda _, x: x.tile(dims=(2, 1)),
    "repeat": lambda _, x: x.repeat(repeats=(2, 1)),
    "sum_to_size": lambda _, x: x.sum_to_size(size=(1, 3)),
    "swapaxes": lambda _, x: x.swapaxes(axis0=0, axis1=1),
    "swapaxes_": lambda _, x: x.clone().swapaxes_(axis0=0, axis1=1),
    "swapaxes of torch": lambda t, x: t.swapaxes(input=x, axis0=0, axis1=1),
    "tensor_split": lambda _, x: x.tensor_split(sections=2, dim=1)[0],
    "tensor_split at": lambda t, x: t.tensor_split(x, indices=(1,), dim=1)[1],
    "hsplit": lambda _, x: x.hsplit(sections=3)[1],
    "vsplit": lambda t, x: t.vsplit(x, indices=[1])[1],
    "new_zeros": lambda _, x: x.new_zeros(size=(2, 2)),
    "new_ones": lambda _, x: x.new_ones(size=(2,)),
    "new_empty": lambda _, x: x.new_empty(size=(2, 2)).zero_(),
    "bernoulli": lambda _, x: x.bernoulli(p=1.0),
    "bernoulli of torch": lambda t, x: t.bernoulli(input=x, p=0.0),
    "fill_diagonal_": lambda t, x: t.zeros(8, 3).fill_diagonal_(fill_value=2, wrap=True),
    "norm": lambda t, x: t.linalg.norm(input=x, ord=2, dim=1),
    "pinv": lambda t, x: t.linalg.pinv(input=x),
    "eye": lambda t, x: t.eye(n=2, m=3),
    "zeros_like": lambda t, x: t.zeros_like(input=x),
    "full_like": lambda t, x: t.full_like(input=x, fill_value=3),
    "det": lambda t, x: t.det(input=x[:, :2]),
    "slogdet": lambda t, x: t.slogdet(input=x[:, :2])[1],
    "matrix_power": lambda t, x: t.matrix_power(input=x[:, :2], n=2),
    "eigvals": lambda t, x: t.linalg.eigvals(input=x[:, :2]).abs().sort()[0],
    "eig": lambda t, x: t.linalg.eig(input=x[:, :2])[0].abs().sort()[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_by_pytorchs_names_gives_its_result(name: str) -> None:
    found = CALLS[name](torch, torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.5, 6.0]]))
    expected = CALLS[name](theirs, theirs.tensor([[1.0, 2.0, 3.0], [4.0, 5.5, 6.0]]))
    assert (tuple(found.shape), str(found.dtype)) == (
        tuple(expected.shape),
        str(expected.dtype).removeprefix("torch."),
    )
    assert values(found) == pytest.approx(values(expected), rel=1e-5)


def test_sizes_and_parts_are_given_once() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match=r"view takes its sizes once"):
        x.view(3, 2, size=(3, 2))
    with pytest.raises(TypeError, match=r"hsplit takes either sections or indices"):
        x.hsplit(3, sections=3)
    with pytest.raises(TypeError, match=r"tensor_split takes either sections or indices"):
        x.tensor_split()


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
