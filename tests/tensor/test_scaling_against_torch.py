"""Ops with `alpha`, `beta` or `value` compute in the result dtype, as in PyTorch, for all pairs of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensor
from nn import functional

torch = pytest.importorskip("torch")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64"]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
# Relative errors. PyTorch rounds some intermediate results of float16 and bfloat16.
ERRORS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "complex64": 1e-6}
VALUES = ([1.1, 0, 3.3], [100.0, 2.7, 1], [7.3, 3, 1])
FACTORS = (2, 100, -1, 0.1)

Op = Callable[..., Any]


def functions_of(library: Any) -> Any:
    return functional if library is tensor else library.nn.functional


PAIRS: dict[str, Op] = {
    "add": lambda _, a, b, c: a.add(b, alpha=c),
    "add_": lambda _, a, b, c: a.add_(b, alpha=c),
    "sub": lambda _, a, b, c: a.sub(b, alpha=c),
    "sub_": lambda _, a, b, c: a.sub_(b, alpha=c),
    "rsub": lambda t, a, b, c: a.rsub(b, alpha=c) if t is tensor else t.rsub(a, b, alpha=c),
    "addmm": lambda _, a, b, c: a[None].addmm(b[:, None], b[None], alpha=c, beta=2),
    "addmv": lambda _, a, b, c: a.addmv(b[:, None] * b, b, alpha=c, beta=2),
    "addr": lambda _, a, b, c: a.addr(b, b, alpha=c, beta=2),
    "baddbmm": lambda _, a, b, c: a[None, None].baddbmm(b[None, :1, None], b[None, None], alpha=c, beta=2),
    "addbmm": lambda _, a, b, c: a[None].addbmm(b[None, :1, None], b[None, None], alpha=c, beta=2),
    "index_add": lambda t, a, b, c: a.index_add(0, t.tensor([1, 0, 1]), b, alpha=c),
    "addcmul": lambda _, a, b, c: a.addcmul(b, b, value=c),
    "addcmul_": lambda _, a, b, c: a.addcmul_(b, b, value=c),
    "addcdiv": lambda _, a, b, c: a.addcdiv(b, b, value=c),
    "addcdiv_": lambda _, a, b, c: a.addcdiv_(b, b, value=c),
    "index_fill": lambda t, a, b, c: a.index_fill(0, t.tensor([1]), c),
    "masked_fill": lambda t, a, b, c: a.masked_fill(t.tensor([True, False, True]), c),
    "masked_fill by a tensor": lambda t, a, b, c: a.masked_fill(t.tensor([True, False, True]), b[0]),
    "scatter": lambda t, a, b, c: a.scatter(0, t.tensor([1, 0]), c),
    "fill_": lambda t, a, b, c: a.fill_(c),
    "fill_ by a tensor": lambda t, a, b, c: a.fill_(b[0]),
    "logaddexp2": lambda t, a, b, c: a.logaddexp2(b),
    "cosine_similarity": lambda t, a, b, c: functions_of(t).cosine_similarity(a, b, dim=0),
}


def operands(library: Any, dtypes: tuple[str, ...]) -> list[Any]:
    """Return a tensor of each of `dtypes`."""
    made = []
    for values, name in zip(VALUES, dtypes, strict=False):
        kept = [bool(v) if name == "bool" else int(v) if "int" in name else v for v in values]
        made.append(library.tensor(kept, dtype=getattr(library, name)))
    return made


def result(library: Any, op: Op, dtypes: tuple[str, ...], factor: complex) -> tuple[str, Any] | None:
    """Return the dtype and the values of the result, or None if the op refuses the operands."""
    try:
        found = op(library, *operands(library, dtypes), factor)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    values = found.float() if "bfloat16" in str(found.dtype) else found
    return str(found.dtype).removeprefix("torch."), np.asarray(values.numpy())


def is_refused_here(name: str, dtypes: tuple[str, ...], factor: complex) -> bool:
    """Return whether a fill of integers would lose the value: the imaginary part, or the sign."""
    if "by a tensor" in name:
        return "complex" in dtypes[1] and "complex" not in dtypes[0]
    return name in ("index_fill", "masked_fill", "scatter", "fill_") and dtypes[0] == "uint8" and factor == -1


def compare(name: str, op: Op, dtypes: tuple[str, ...], factor: complex) -> int:
    """Compare one call, and return 1, or 0 if PyTorch refuses it."""
    theirs = None if is_refused_here(name, dtypes, factor) else result(torch, op, dtypes, factor)
    if theirs is None:
        return 0
    ours = result(tensor, op, dtypes, factor)
    case = f"{name} of {dtypes} by {factor}: {ours}, PyTorch's {theirs}"
    assert ours is not None, case
    assert ours[0] == theirs[0], case
    if theirs[0] not in ("float64", "complex128") and theirs[0] not in ERRORS:
        np.testing.assert_array_equal(ours[1], theirs[1], case)
    else:
        error = ERRORS.get(theirs[0], 1e-14)
        if name == "cosine_similarity":  # PyTorch rounds the length of each vector to its dtype
            error = max(error, *[ERRORS.get(dtype, 0) for dtype in dtypes])
        with np.errstate(invalid="ignore"):
            # The operands are up to 100, and one may be rounded before a difference.
            np.testing.assert_allclose(ours[1], theirs[1], error, 100 * error, err_msg=case)
    return 1


@pytest.mark.parametrize("name", PAIRS)
def test_all_pairs_of_dtypes_give_pytorchs_result(name):
    compared = 0
    for dtypes in product(DTYPES, repeat=2):
        for factor in FACTORS:
            compared += compare(name, PAIRS[name], dtypes, factor)
    assert compared >= 40


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_all_triples_of_dtypes_give_pytorchs_result(name):
    def op(_: Any, a: Any, b: Any, c: Any, value: complex) -> Any:
        return getattr(a, name)(b, c, value=value)

    for dtypes in product(DTYPES, repeat=3):
        compare(name, op, dtypes, 3)


def test_a_scaled_operand_has_the_width_of_the_result():
    small = tensor.tensor([100], dtype=tensor.int8)
    assert tensor.zeros((1,)).add(small, alpha=2).item() == 200
    assert tensor.zeros((1,)).sub_(small, alpha=2).item() == -200
    third = tensor.tensor([1 / 3], dtype=tensor.float64)
    x = tensor.zeros((1,), dtype=tensor.float64).addcdiv(tensor.ones((1,)), 3 * tensor.ones((1,)))
    assert x.item() == third.item()


def test_the_gradient_of_a_scaled_operand_has_its_dtype():
    y = tensor.ones((2,), dtype=tensor.float16, requires_grad=True)
    x = tensor.ones((2,), requires_grad=True)
    x.add(y, alpha=0.5).sum().backward()
    assert y.grad.dtype == tensor.float16
    assert y.grad.tolist() == [0.5, 0.5]
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_fraction_can_not_scale_integers_in_place():
    x = tensor.ones((2,), dtype=tensor.int64)
    with pytest.raises(ValueError, match=r"alpha=0.5 takes a floating tensor"):
        x.add_(x, alpha=0.5)
    assert x.tolist() == [1, 1]
