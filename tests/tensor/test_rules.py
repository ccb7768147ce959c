"""The table of derivatives: what is missing in it, or does not fit an op, is said in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tensor.ops.dispatch import UnaryOp, apply
from tensor.ops.table import unary
from tensor.tape.rules import RULES
from tensor.tape.rules.table import define

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def table() -> Iterator[None]:
    before = dict(RULES)
    yield
    RULES.clear()
    RULES.update(before)


def test_an_op_without_an_entry_is_refused_when_its_table_is_built() -> None:
    with pytest.raises(
        NotImplementedError, match=r"the op 'cube' has no entry.*define\('cube', x=derivative\)"
    ):
        unary("cube", lambda x: x**3)


@pytest.mark.usefixtures("table")
def test_a_derivative_that_asks_for_an_unknown_name_is_refused_when_its_table_is_built() -> None:
    rule = define("cube", x=lambda xp, g, y: g * 3 * y * y)
    with pytest.raises(NotImplementedError, match=r"op 'cube' has a parameter 'y', .* It may use x, out"):
        UnaryOp(rule, lambda x: x**3)


@pytest.mark.usefixtures("table")
def test_a_parameter_that_the_op_does_not_pass_is_named_when_it_is_recorded() -> None:
    rule = define("scaled", x=lambda xp, g, factor: g * factor)
    x = tensor.ones((2,), requires_grad=True)
    with pytest.raises(
        NotImplementedError, match=r"has a parameter 'factor'.*apply\(rule, kernel, inputs, factor=\.\.\.\)"
    ):
        apply(rule, lambda a: a * 2, (x,))
    assert apply(rule, lambda a: a * 2, (x.detach(),)).tolist() == [2.0, 2.0]


@pytest.mark.usefixtures("table")
def test_an_entry_with_too_few_inputs_is_named_when_it_is_recorded() -> None:
    def derivative(xp: Any, g: Any) -> Any:
        return g

    rule = define("total", x=derivative)
    x = tensor.ones((2,), requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"'total' has 2 inputs, .* has 1 \(x\)"):
        apply(rule, np.add, (x, x))


def test_backward_from_an_op_without_a_derivative_says_so() -> None:
    x = tensor.ones((2, 2), requires_grad=True)
    with pytest.raises(RuntimeError, match="its op has no derivative"):
        tensor.linalg.matrix_rank(x).backward()
