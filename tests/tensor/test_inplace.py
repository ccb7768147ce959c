"""Writes in place: the ordinary op's values, seen by views and aliases and by no clone, all or nothing."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given

import tensor
from tensor import Tensor
from tensor.ops.dispatch import BinaryOp, UnaryOp
from tensor.ops.table import OPS
from tests.tensor.arrays import arrays, assert_values, pairs, scalars


def of_the_table(kind: type) -> tuple[str, ...]:
    """Return the ops of the table of that kind whose methods have a form in place."""
    return tuple([name for name, op in OPS.items() if isinstance(op, kind) and hasattr(Tensor, f"{name}_")])


UNARY = of_the_table(UnaryOp)
BINARY = (*of_the_table(BinaryOp), "sub", "div")
AUGMENTED = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}


def assert_writes_or_nothing(x: Tensor, write, ordinary) -> None:
    """Hold that `write` gives the ordinary result where it fits the tensor, or raises and writes nothing."""
    before = x.numpy().copy()
    try:
        expected = ordinary()
    except (TypeError, ValueError, OverflowError):
        expected = None
    fits = expected is not None and expected.shape == x.shape
    # NumPy calls signed and unsigned integers two kinds; in PyTorch they are one.
    if fits and (
        np.can_cast(expected.dtype, x.dtype, "same_kind")
        or (expected.dtype.kind == "i" and x.dtype.kind == "u")
    ):
        assert write() is x
        # NumPy's products of complex numbers may differ in the last digit when they overwrite an operand.
        assert_values(x.numpy(), expected.numpy().astype(x.dtype), exact=False)
    else:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            write()
        np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize("name", BINARY)
@given(operands=pairs())
def test_a_method_writes_the_ordinary_result_or_nothing(name, operands):
    a, b = operands
    x, y = tensor.tensor(a), tensor.tensor(b)
    with np.errstate(all="ignore"):
        assert_writes_or_nothing(
            x, lambda: getattr(x, f"{name}_")(y), lambda: getattr(tensor.tensor(a), name)(y)
        )


@pytest.mark.parametrize("op", AUGMENTED, ids=lambda op: op.__name__)
@given(array=arrays(), scalar=scalars)
def test_augmented_assignment_writes_the_ordinary_result_or_nothing(op, array, scalar):
    x = tensor.tensor(array)
    with np.errstate(all="ignore"):
        assert_writes_or_nothing(
            x, lambda: op(x, scalar), lambda: AUGMENTED[op](tensor.tensor(array), scalar)
        )


@pytest.mark.parametrize("name", UNARY)
@given(array=arrays())
def test_a_method_of_one_tensor_writes_the_ordinary_result_or_nothing(name, array):
    if name in ("abs", "absolute") and array.dtype.kind == "c":
        return  # refused: the result is real
    x = tensor.tensor(array)
    with np.errstate(all="ignore"):
        assert_writes_or_nothing(x, getattr(x, f"{name}_"), getattr(tensor.tensor(array), name))


WRITES = {
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(tensor.tensor([2.0, 3.0])),
    "+=": lambda x: operator.iadd(x, 1),
    "exp_": lambda x: x.exp_(),
    "relu_": lambda x: x.relu_(),
    "sigmoid_": lambda x: x.sigmoid_(),
    "clamp_": lambda x: x.clamp_(2.0, 3.0),
    "addcmul_": lambda x: x.addcmul_(tensor.ones((2,)), tensor.ones((2,)), value=0.5),
    "addcdiv_": lambda x: x.addcdiv_(tensor.ones((2,)), tensor.full((2,), 2.0)),
    "lerp_": lambda x: x.lerp_(tensor.zeros((2,)), 0.5),
    "fill_": lambda x: x.fill_(7),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(tensor.tensor([7, 8])),
    "masked_fill_": lambda x: x.masked_fill_(x > 1, 0.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_views_and_aliases_see_a_write_and_clones_do_not(write):
    x = tensor.tensor([-1.0, 1.5])
    view, alias, clone, array = x[:1], x.alias(), x.clone(), x.numpy()
    assert write(x) is x
    assert alias.tolist() == x.tolist() == array.tolist() != clone.tolist()
    assert view.tolist() == x.tolist()[:1]
    assert clone.tolist() == [-1.0, 1.5]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_a_clone_leaves_the_original(write):
    x = tensor.tensor([-1.0, 1.5])
    clone = x.clone()
    write(clone)
    assert x.tolist() == [-1.0, 1.5]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_a_leaf_that_requires_grad_writes_nothing(write):
    x = tensor.tensor([-1.0, 1.5], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        write(x)
    assert x.tolist() == [-1.0, 1.5]
    with tensor.no_grad():
        write(x)
    assert x.tolist() != [-1.0, 1.5]


@pytest.mark.parametrize("write", [write for name, write in WRITES.items() if name != "masked_fill_"])
def test_a_disposed_operand_or_target_writes_nothing(write):
    x = tensor.tensor([-1.0, 1.5])
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        write(x)


def test_overlapping_views_are_read_before_they_are_written():
    x = tensor.tensor([1, 2, 3, 4])
    x[1:].add_(x[:-1])
    assert x.tolist() == [1, 3, 5, 7]
    square = tensor.tensor([[1, 2], [3, 4]])
    square.sub_(square.T)
    assert square.tolist() == [[0, -1], [1, 0]]
    x.copy_(x.flip(0))
    assert x.tolist() == [7, 5, 3, 1]


def test_a_tensor_may_be_its_own_operand():
    x = tensor.tensor([1.0, 2.0])
    x += x
    x *= x
    assert x.sub_(x).tolist() == [0.0, 0.0]


def test_growth_is_refused_with_the_cure():
    x = tensor.ones((1, 2))
    with pytest.raises(ValueError, match=r"add_: .*\(1, 2\).*can't grow.*x = x\.add\("):
        x.add_(tensor.ones((3, 2)))
    with pytest.raises(ValueError, match=r"clamp_|clip_"):
        x.clamp_(tensor.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"copy_: shape \(3,\)"):
        x.copy_(tensor.ones((3,)))
    assert x.tolist() == [[1.0, 1.0]]


MISFITS = {
    "div_": lambda x: x.div_(2),
    "add_": lambda x: x.add_(1.5),
    "sqrt_": lambda x: x.sqrt_(),
    "sigmoid_": lambda x: x.sigmoid_(),
    "clamp_": lambda x: x.clamp_(0.5),
    "lerp_": lambda x: x.lerp_(x, 0.5),
    "addcdiv_": lambda x: x.addcdiv_(x, x),
    "/=": lambda x: operator.itruediv(x, 2),
}


@pytest.mark.parametrize("write", MISFITS.values(), ids=MISFITS)
def test_in_place_op_with_a_result_of_a_higher_kind_raises_an_error_with_the_fix(write):
    x = tensor.tensor([1, 2])
    with pytest.raises(TypeError, match=r"_: the result is float32.*int64.*x\.float\(\)"):
        write(x)
    assert (x.tolist(), x.dtype) == ([1, 2], tensor.int64)


def test_a_wider_result_is_rounded_to_the_tensors_dtype():
    x = tensor.ones((2,))
    x += tensor.full((2,), 0.5, dtype="float64")
    assert (x.tolist(), x.dtype) == ([1.5, 1.5], tensor.float32)


def test_integers_with_a_negative_power_among_the_exponents_stay_as_they_are():
    x = tensor.tensor([2, 3])
    with pytest.raises(ValueError, match=r"pow_.*negative"):
        x.pow_(tensor.tensor([2, -1]))
    assert x.tolist() == [2, 3]


def test_a_number_beyond_the_dtype_is_named():
    x = tensor.tensor([1], dtype="int8")
    for write in (lambda: x.add_(300), lambda: x.fill_(300)):
        with pytest.raises(OverflowError, match=r"int8\[1\].*300"):
            write()
    assert x.tolist() == [1]


def test_complex_values_do_not_fit_real_tensors():
    x = tensor.ones((2,))
    for write in (lambda: x.fill_(1j), lambda: x.copy_(tensor.tensor([1j, 1j])), lambda: x.mul_(1j)):
        with pytest.raises(TypeError, match="complex"):
            write()
    with pytest.raises(TypeError, match="abs_"):
        tensor.tensor([1j]).abs_()
    assert x.tolist() == [1.0, 1.0]


def test_fill_takes_one_value():
    x = tensor.zeros((2,))
    assert x.fill_(tensor.tensor([3])).tolist() == [3.0, 3.0]
    assert x.fill_(math.inf).tolist() == [math.inf, math.inf]
    with pytest.raises(ValueError, match=r"fill_ takes one value, not shape \(2,\)"):
        x.fill_(tensor.ones((2,)))


@pytest.mark.parametrize("name", [*(f"{name}_" for name in BINARY), "copy_", "fill_", "clamp_"])
def test_a_foreign_operand_is_named(name):
    with pytest.raises(TypeError, match=r"takes .*not str.*tensor\.tensor"):
        getattr(tensor.tensor([1]), name)("text")


@pytest.mark.parametrize("op", AUGMENTED, ids=lambda op: op.__name__)
def test_augmented_assignment_with_a_foreign_operand_is_pythons_type_error(op):
    x = tensor.tensor([1])
    with pytest.raises(TypeError, match="Tensor"):
        op(x, None)
    assert x.tolist() == [1]


def test_alpha_and_value_scale_without_changing_the_dtype():
    x = tensor.ones((2,), dtype="float16")
    x.add_(0.5, alpha=2).sub_(tensor.ones((2,)), alpha=0.5)
    x.addcmul_(2.0, x, value=0.5)
    assert (x.tolist(), x.dtype) == ([3.0, 3.0], tensor.float16)


def test_a_write_to_an_expanded_view_is_refused():
    x = tensor.zeros((1, 2))
    with pytest.raises(RuntimeError, match=r"expanded view.*x\.clone\(\)"):
        x.expand(3, 2).add_(1)
    assert x.tolist() == [[0.0, 0.0]]


# --- Another shape ------------------------------------------------------------------------------------------

RESHAPED = [
    ("squeeze", ()),
    ("squeeze", (1,)),
    ("unsqueeze", (-1,)),
    ("transpose", (0, 2)),
    ("swapaxes", (0, 1)),
    ("swapdims", (-1, 0)),
]


@pytest.mark.parametrize(("name", "arguments"), RESHAPED)
def test_a_view_in_place_changes_the_shape_and_moves_no_element(
    name: str, arguments: tuple[int, ...]
) -> None:
    x = tensor.arange(6).reshape(2, 1, 3)
    row, clone, expected = x[1], x.clone(), getattr(x, name)(*arguments)
    assert getattr(x, f"{name}_")(*arguments) is x
    assert (x.shape, x.tolist()) == (expected.shape, expected.tolist())
    x.fill_(7)
    assert (row.tolist(), clone.tolist()) == ([[7, 7, 7]], [[[0, 1, 2]], [[3, 4, 5]]])


def test_a_matrix_is_transposed_in_place_with_its_history() -> None:
    w = tensor.ones((2, 3), requires_grad=True)
    y = w * 2
    sums = y.sum(1)
    y.unsqueeze_(1).mul_(3)
    with tensor.no_grad():
        y.squeeze_(1)
    (y.t_() * tensor.arange(6).reshape(3, 2)).sum().backward()
    assert w.grad.tolist() == [[0.0, 12.0, 24.0], [6.0, 18.0, 30.0]]
    assert sums.tolist() == [6.0, 6.0]


def test_a_leaf_that_requires_grad_keeps_its_shape() -> None:
    x = tensor.ones((2, 3), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"x = x\.t\(\.\.\.\)"):
        x.t_()
    assert x.shape == (2, 3)


def test_an_empty_tensor_has_no_shape_to_change() -> None:
    x = tensor.ones((2, 3))
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        x.squeeze_()
