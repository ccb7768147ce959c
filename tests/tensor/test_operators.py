"""Python's operators on tensors, on either side, and the elementwise methods of PyTorch."""

from __future__ import annotations

import gc
import math
import operator

import numpy as np
import pytest
from hypothesis import assume, given

import tensor
from tensor import memory
from tests.tensor.arrays import arrays, assert_same, is_exact, pairs, promoted, scalars

BINARY = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip
UNARY = (operator.neg, operator.pos, operator.abs, operator.invert)


def assert_like_numpy(op, arguments, ours):
    try:
        expected = op(*promoted(op.__name__, *arguments))
    except TypeError:
        with pytest.raises(TypeError):
            op(*ours)
    else:
        assert_same(op(*ours), expected, exact=is_exact(op.__name__, *arguments))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@given(operands=pairs())
def test_an_operator_equals_that_of_numpy_and_promotes_by_kind(op, operands):
    a, b = operands
    with np.errstate(all="ignore"):
        assert_like_numpy(op, operands, (tensor.tensor(a), tensor.tensor(b)))
        if b.ndim:
            assert_like_numpy(op, operands, (tensor.tensor(a), b))
        if a.ndim:
            assert_like_numpy(op, operands, (a, tensor.tensor(b)))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@given(array=arrays(), scalar=scalars)
def test_an_operator_takes_python_scalars_on_either_side(op, array, scalar):
    # A power of two bools is a bool, as in PyTorch; NumPy makes int8 of them.
    assume(not (op is operator.pow and array.dtype == bool and isinstance(scalar, bool)))
    with np.errstate(all="ignore"):
        assert_like_numpy(op, (array, scalar), (tensor.tensor(array), scalar))
        assert_like_numpy(op, (scalar, array), (scalar, tensor.tensor(array)))


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.__name__)
@given(array=arrays())
def test_a_unary_operator_equals_that_of_numpy(op, array):
    assert_like_numpy(op, (array,), (tensor.tensor(array),))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_an_array_or_numpy_scalar_on_the_left_gives_a_tensor(op):
    x = tensor.tensor([1, 2])
    for left in (np.array([2, 1]), np.int64(3), np.array(3)):
        assert isinstance(op(left, x), tensor.Tensor)


@pytest.mark.parametrize(
    "op", [op for op in BINARY if op not in (operator.eq, operator.ne)], ids=lambda op: op.__name__
)
def test_an_operator_with_a_foreign_operand_is_pythons_type_error(op):
    x = tensor.tensor([1, 2])
    for other in (None, {}, object()):
        with pytest.raises(TypeError, match="Tensor"):
            op(x, other)
        with pytest.raises(TypeError, match="Tensor"):
            op(other, x)


def test_a_user_class_may_implement_the_operator():
    class Answers:
        def __radd__(self, other):
            return "mine"

    assert tensor.ones((1,)) + Answers() == "mine"


def test_equality_with_a_value_that_is_not_a_number_is_pythons():
    x = tensor.ones((2,))
    assert (x == "text") is False
    assert (x != None) is True  # noqa: E711  # the operator is what is tested
    assert x in {x}


def test_comparisons_are_elementwise_and_one_element_has_a_truth():
    assert (tensor.tensor([1, 2]) == tensor.tensor([1, 3])).tolist() == [True, False]
    assert tensor.tensor([1.0]) > 0
    with pytest.raises(ValueError, match="one element"):
        bool(tensor.ones((2,)) > 0)


def test_add_and_sub_scale_by_alpha():
    x = tensor.tensor([1.0, 2.0])
    assert x.add(x, alpha=2).tolist() == [3.0, 6.0]
    assert x.add_(x, alpha=0.5).tolist() == [1.5, 3.0]
    assert x.add(1, alpha=2).dtype == tensor.float32
    assert x.sub(x, alpha=3).tolist() == [-3.0, -6.0]
    assert tensor.tensor([True]).add(True).dtype == tensor.bool


def test_products_and_quotients_are_added_with_their_gradients():
    x, a, b = (tensor.tensor([value], requires_grad=True) for value in (1.0, 2.0, 4.0))
    out = x.addcmul(a, b, value=3).addcdiv(a, b, value=2)
    assert out.tolist() == [1 + 3 * 2 * 4 + 2 * 2 / 4]
    out.backward()
    assert [v.grad.tolist() for v in (x, a, b)] == [[1.0], [3 * 4 + 2 / 4], [3 * 2 - 2 * 2 / 16]]
    assert x.addcmul(2.0, 0.5, value=2).dtype == tensor.float32


def test_closeness_and_equality_of_whole_tensors():
    x = tensor.tensor([1.0, math.inf])
    assert x.allclose(x + 1e-7)
    assert not x.allclose(x + 1.0)
    assert x.isclose(tensor.tensor([1.1, math.inf]), rtol=0.2).tolist() == [True, True]
    assert x.equal(x.clone())
    assert not x.equal(x[:1])
    assert not tensor.tensor([math.nan]).equal(tensor.tensor([math.nan]))


def test_clamp_min_and_max_are_the_halves_of_clamp():
    x = tensor.tensor([1, 5, 9])
    assert x.clamp_min(3).clamp_max(6).equal(x.clamp(3, 6))


@pytest.mark.parametrize(
    ("mode", "expected"), [(None, [-3.5, 3.5]), ("floor", [-4.0, 3.0]), ("trunc", [-3.0, 3.0])]
)
def test_div_rounds_as_asked(mode, expected):
    assert tensor.tensor([-7.0, 7.0]).div(2, rounding_mode=mode).tolist() == expected


def test_div_of_integers_with_rounding_stays_integer():
    for mode, expected in (("floor", [-4, 3]), ("trunc", [-3, 3])):
        result = tensor.tensor([-7, 7]).div(2, rounding_mode=mode)
        assert (result.tolist(), result.dtype) == (expected, tensor.int64)


def test_div_names_a_rounding_mode_that_is_none():
    with pytest.raises(ValueError, match=r"None, 'floor' or 'trunc', not 'up'"):
        tensor.ones((1,)).div(2, rounding_mode="up")


def test_round_to_decimals_keeps_the_dtype():
    for dtype in ("float32", "float64"):
        rounded = tensor.tensor([1.26, -1.26], dtype=dtype).round(decimals=1)
        assert rounded.dtype == dtype
        np.testing.assert_allclose(rounded.numpy(), [1.3, -1.3], rtol=1e-6)
    assert tensor.tensor([15.0, 25.0]).round(decimals=-1).tolist() == [20.0, 20.0]


def test_where_is_a_method_and_clamp_takes_tensors():
    x = tensor.tensor([[-1.0, 2.0], [3.0, 4.0]])
    assert x.where(x > 0, 0.0).tolist() == [[0.0, 2.0], [3.0, 4.0]]
    assert x.clamp(tensor.tensor([0.0, 3.0]), 3.5).tolist() == [[0.0, 3.0], [3.0, 3.5]]


def test_a_stored_error_of_an_operator_holds_no_operand() -> None:
    gc.collect()
    before = memory.statistics().bytes_live
    with pytest.raises(ValueError, match="shapes don't fit") as stored:
        tensor.ones((500, 500)) + tensor.ones((3, 7))
    assert stored.value.__context__ is None
    assert memory.statistics().bytes_live == before
