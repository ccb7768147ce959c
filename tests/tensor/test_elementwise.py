"""Elementwise functions: NumPy's values, promotion and broadcasting; what does not fit is named."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tensor
from tensor.ops import elementwise
from tensor.ops.dispatch import UnaryOp
from tensor.ops.table import OPS
from tests.tensor.arrays import (
    ALL,
    COMPLEX,
    FLOATING,
    arrays,
    assert_same,
    filled,
    is_exact,
    pairs,
    promoted,
    scalars,
)

NUMPY_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atanh": "arctanh", "atan2": "arctan2", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}  # fmt: skip

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh",
    "exp", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
    "logical_not", "negative", "positive", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc",
)  # fmt: skip
BINARY = (
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal",
    "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter",
    "not_equal", "pow", "remainder", "subtract",
)  # fmt: skip


def of_numpy(name: str):
    if name == "pow":  # as the operator, which squares some exponents by the way
        return operator.pow
    return getattr(np, NUMPY_NAMES.get(name, name))


def domain(name: str) -> tuple[float, float]:
    return {"acosh": (1.5, 3.0), "acos": (0.1, 0.9), "asin": (0.1, 0.9), "atanh": (0.1, 0.9)}.get(
        name, (1, 4)
    )


def assert_like_numpy(name: str, *arguments: object) -> None:
    """Hold that our function gives what NumPy's gives, and raises the same kind of error, naming itself."""
    given_to_ours = [tensor.tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]
    try:
        expected = of_numpy(name)(*promoted(name, *arguments))
    except TypeError:
        with pytest.raises(TypeError, match=f"^{name} is not defined for"):
            getattr(tensor, name)(*given_to_ours)
    else:
        found = getattr(tensor, name)(*given_to_ours)
        assert_same(found, expected, exact=is_exact(name, *arguments))


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_argument_gives_numpys_values_of_every_dtype(name):
    for dtype in ALL:
        if name in ("acos", "asin", "atanh") and dtype not in FLOATING:
            continue  # of integers just 0 and 1 are in their domain
        if dtype == "bool" and name in ("conj", "square"):
            continue  # NumPy makes int8 of them
        for shape in ((3,), (), (2, 0), (2, 1, 3)):
            assert_like_numpy(name, filled(dtype, shape, 0, *domain(name)))


def test_the_conjugate_of_a_bool_is_that_bool():
    x = tensor.tensor([True, False])
    for found in (x.conj(), tensor.conj(x, out=tensor.zeros((2,), dtype=bool)), np.conjugate(x)):
        assert_same(found, np.array([True, False]))


@pytest.mark.parametrize("name", BINARY)
@given(operands=pairs())
def test_a_function_of_two_arguments_broadcasts_as_numpy_and_promotes_by_kind(name, operands):
    with np.errstate(all="ignore"):
        assert_like_numpy(name, *operands)


@pytest.mark.parametrize("name", BINARY)
@given(array=arrays(), scalar=scalars)
def test_a_python_scalar_on_either_side_adapts_to_the_tensor(name, array, scalar):
    # A power of two bools is a bool, as in PyTorch; NumPy makes int8 of them.
    assume(not (name == "pow" and array.dtype == bool and isinstance(scalar, bool)))
    with np.errstate(all="ignore"):
        assert_like_numpy(name, array, scalar)
        assert_like_numpy(name, scalar, array)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "pow", "maximum", "atan2", "logaddexp"]
)
def test_gradients_have_the_dtype_of_their_tensor_with_python_scalars(name, dtype):
    for scalar in (2, 0.5):
        x = tensor.tensor(filled(dtype, (2, 3), 0), requires_grad=True)
        function = getattr(tensor, name)
        out = function(function(x, scalar), 1.5)
        assert out.dtype == x.dtype
        out.sum().backward()
        assert (x.grad.dtype, x.grad.shape) == (x.dtype, x.shape)


def test_numpy_arrays_and_scalars_are_operands_with_a_dtype_of_their_own():
    x = tensor.ones((2,))
    assert tensor.add(x, np.ones(2)).dtype == tensor.float64
    assert tensor.add(np.float64(1), x).dtype == tensor.float64
    assert tensor.exp(np.zeros(2)).tolist() == [1.0, 1.0]


def test_python_numbers_alone_have_the_dtypes_of_tensors_made_of_them():
    assert tensor.exp(0.5).dtype == tensor.float32
    assert tensor.add(1.5, 2.0).dtype == tensor.float32
    assert tensor.add(1, 2).dtype == tensor.int64
    assert tensor.where(tensor.tensor([True]), 1.0, 0.0).dtype == tensor.float32
    assert tensor.where(tensor.tensor([True]), 1, 0).dtype == tensor.int64


def test_a_foreign_operand_is_named_with_the_cure():
    x = tensor.ones((2,))
    wrong = {"where": (x > 0, "text", x), "lerp": (x, x, "text"), "clip": (x, "text"), "rsqrt": ("text",)}
    wrong |= dict.fromkeys(UNARY, ("text",)) | dict.fromkeys(BINARY, (x, "text"))
    for name, arguments in wrong.items():
        with pytest.raises(TypeError, match=rf"^{name}.* takes .*not str.*tensor\.tensor"):
            getattr(tensor, name)(*arguments)


def test_shapes_that_do_not_broadcast_are_named():
    for name in BINARY:
        dtype = "int64" if name.startswith("bitwise") else "float32"
        x, y = (tensor.ones(shape, dtype=dtype) for shape in ((2,), (4, 3)))
        with pytest.raises(ValueError, match=rf"^{name}: shapes don't fit.*{dtype}\[2\] and {dtype}\[4, 3\]"):
            getattr(tensor, name)(x, y)


def test_a_python_integer_beyond_the_dtype_is_named():
    with pytest.raises(OverflowError, match=r"^add of int8\[1\] and int: .*300"):
        tensor.add(tensor.tensor([1], dtype="int8"), 300)


def test_integers_have_no_negative_integer_powers():
    with pytest.raises(ValueError, match=r"^pow: .*negative.*x\.float\(\)"):
        tensor.tensor([2]) ** -1
    assert (tensor.tensor([2.0]) ** -1).tolist() == [0.5]


def test_the_namespace_has_each_function_of_the_table():
    assert set(OPS) - {"matmul"} <= set(elementwise.__all__)
    assert set(OPS) <= set(tensor.__all__)


@pytest.mark.parametrize("name", sorted(OPS))
def test_out_takes_the_result_of_each_function_of_the_table(name):
    operands = [tensor.ones((2, 2), dtype="int64")] * (1 if isinstance(OPS[name], UnaryOp) else 2)
    function = getattr(tensor, name)
    expected = function(*operands)
    out = tensor.zeros((2, 2), dtype=expected.dtype)
    assert function(*operands, out=out) is out
    assert_same(out, expected.numpy())


def test_results_own_their_memory():
    x = tensor.ones((2,))
    for result in (
        +x,
        x.conj(),
        tensor.clip(x, 0.0, 2.0),
        tensor.where(x > 0, x, x),
        x.round(),
        tensor.relu(x),
    ):
        result.zero_()
    assert x.tolist() == [1.0, 1.0]


@given(
    array=arrays(FLOATING),
    low=st.sampled_from([None, 1.5, 2, np.float32(2)]),
    high=st.sampled_from([None, 2.5, 3, np.float64(1)]),
)
def test_clip_gives_numpys_values(array, low, high):
    assume(low is not None or high is not None)
    assert_same(tensor.clip(tensor.tensor(array), low, high), np.clip(array, low, high))


def test_clip_names_bounds_that_do_not_broadcast():
    x = tensor.ones((2,))
    with pytest.raises(ValueError, match=r"clip.*float32\[2\].*float32\[3\]"):
        tensor.clip(x, tensor.zeros((3,)))


@given(operands=pairs())
def test_where_selects_as_numpy_and_promotes_by_kind(operands):
    a, b = operands
    shape = np.broadcast_shapes(a.shape, b.shape)
    condition = np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0
    ours = tensor.where(tensor.tensor(condition), tensor.tensor(a), tensor.tensor(b))
    assert_same(ours, np.where(condition, *promoted("where", a, b)))


def test_where_takes_a_condition_of_bool_only():
    with pytest.raises(TypeError, match=r"where.*must be bool.*x > 0"):
        tensor.where(tensor.ones((2,)), 1.0, 0.0)


def test_a_scalar_in_where_adapts_to_the_tensor():
    x = tensor.ones((2,), dtype="float16")
    assert tensor.where(x > 0, x, 0.0).dtype == tensor.float16
    assert tensor.where(x > 0, 1, x).dtype == tensor.float16
    assert tensor.where(tensor.tensor([True]), tensor.tensor([1], dtype="int8"), 0).dtype == tensor.int8


@pytest.mark.parametrize("dtype", [*FLOATING, *COMPLEX])
def test_lerp_and_rsqrt_keep_the_dtype(dtype):
    x = tensor.tensor(filled(dtype, (3,), 0))
    assert tensor.lerp(x, x + 1, 0.5).dtype == x.dtype
    assert_same(tensor.rsqrt(x), np.reciprocal(np.sqrt(filled(dtype, (3,), 0))), exact=False)


def test_integers_are_compared_exactly_without_tolerances():
    x = tensor.tensor([2**62, -(2**53)])
    assert tensor.isclose(x, x + 1, rtol=0, atol=0).tolist() == [False, False]
    assert tensor.isclose(x, x.clone(), rtol=0, atol=0).tolist() == [True, True]
    assert tensor.isclose(x, x + 1, rtol=0, atol=1).tolist() == [True, True]
