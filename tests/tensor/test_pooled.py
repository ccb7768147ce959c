"""Arrays whose results lie in the pool: they are NumPy's in values, dtype, shape and order of memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tensor
from tensor import memory
from tensor.kernels.pooled import Pooled, enter, leave, xp
from tests.tensor.arrays import COMPLEX, FLOATING, Array, filled, is_pooled, pairs, scalars
from tests.tensor.gradients import LAYOUTS, Sample, values
from tests.tensor.test_derivatives import COMPLEX as COMPLEX_SAMPLES
from tests.tensor.test_derivatives import REAL, arrays_of, sampled

Op = Callable[..., Any]

BINARY: list[Op] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lt, operator.le, operator.gt, operator.ge,
    operator.eq, operator.ne, np.maximum, np.logaddexp, np.copysign, np.logical_and,
]  # fmt: skip
UNARY: list[Op] = [
    operator.neg, operator.invert, abs, np.exp, np.sqrt, np.conj, np.isnan, np.sign, np.log1p,
    lambda x: x**2, lambda x: x**0.5, lambda x: x**-1, lambda x: 2.0**x,
]  # fmt: skip
ORDERS: dict[str, Op] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "reversed": lambda x: x[(*[slice(None, None, -1)] * x.ndim, ...)],
    "every other": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "swapped": lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1) if x.ndim > 1 else x,
}
orders = st.sampled_from(list(ORDERS.values()))


@contextmanager
def everything_pooled() -> Iterator[None]:
    """Small arrays go the way of large ones, and memory that nobody wrote to is full of NaN."""
    before = memory.configuration()
    memory.configure(min_pooled_bytes=0, fill=255)
    try:
        yield
    finally:
        memory.configure(**before._asdict())


@pytest.fixture
def everything_is_pooled() -> Iterator[None]:
    with everything_pooled():
        yield


def outcome(function: Op, *operands: Any) -> Any:
    """What `function` returns, or the type of what it raises."""
    with np.errstate(all="ignore"):
        try:
            return leave(function(*operands))
        except (TypeError, ValueError, OverflowError) as error:
            return next(kind for kind in (TypeError, ValueError, OverflowError) if isinstance(error, kind))


def assert_same(ours: Any, expected: Any) -> None:
    if isinstance(expected, type):
        assert ours is expected
        return
    assert type(ours) is np.ndarray or np.ndim(ours) == 0
    ours, expected = np.asarray(ours), np.asarray(expected)
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(ours, expected)
    assert steps(ours) == steps(expected)


def steps(x: Array) -> list[int]:
    """The strides that mean something."""
    return [stride for stride, n in zip(x.strides, x.shape, strict=True) if n > 1] if x.size else []


def test_a_small_array_stays_what_it_is() -> None:
    x = np.ones(3)
    assert enter(x) is x
    assert leave(x) is x
    assert enter("text") == "text"


def test_a_large_array_comes_out_as_the_object_that_came_in() -> None:
    x = np.ones(100_000)
    assert type(enter(x)) is Pooled
    assert leave(enter(x)) is x
    assert np.asarray(enter(x)) is x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,
        lambda x: np.exp(x),
        lambda x: x.copy(),
        lambda x: x.astype(np.float64),
        lambda x: x.T.reshape(-1),
        lambda x: x @ np.ones((400, 350), np.float32),
        lambda x: np.where(x > 0, x, 0),
        lambda x: np.where(np.arange(400) > 9, x, 0),
        lambda x: np.concatenate((x, x)),
        lambda x: np.zeros_like(x),
        lambda x: x[np.arange(350)],
        lambda x: np.broadcast_to(x, (100, *x.shape)).sum(axis=0),
        lambda x: np.add.accumulate(x, axis=0) if type(x) is not Pooled else np.cumulative_sum(x, axis=0),
        lambda x: xp.zeros(x.shape),
    ],
)
def test_a_large_result_is_the_array_that_the_pool_handed_out(function: Op) -> None:
    x = np.ones((400, 400), np.float32)
    out = leave(function(enter(x)))
    assert type(out) is np.ndarray
    assert is_pooled(out)
    assert not isinstance(out.base, np.ndarray)
    np.testing.assert_array_equal(out, function(x))


@given(pairs(), st.sampled_from(BINARY), orders, orders)
@example((np.ones((2, 1, 3)), np.ones((2, 4, 3))), operator.add, ORDERS["F"], ORDERS["swapped"])
@example((np.ones((3, 4)), np.ones((3, 4))), operator.mul, ORDERS["C"], ORDERS["F"])
def test_operators_of_two_arrays_give_what_numpy_gives(
    operands: tuple[Array, Array], op: Op, first: Op, second: Op
) -> None:
    a, b = first(operands[0]), second(operands[1])
    expected = outcome(op, a, b)
    with everything_pooled():
        for ours in ((enter(a), enter(b)), (enter(a), b), (a, enter(b))):
            assert_same(outcome(op, *ours), expected)


@given(pairs(), scalars, st.sampled_from(BINARY), orders)
def test_operators_of_an_array_and_a_number_give_what_numpy_gives(
    operands: tuple[Array, Array], number: Any, op: Op, order: Op
) -> None:
    a = order(operands[0])
    with everything_pooled():
        for x in (number, np.float32(2), np.int8(3)):
            assert_same(outcome(op, enter(a), x), outcome(op, a, x))
            assert_same(outcome(op, x, enter(a)), outcome(op, x, a))


@given(pairs(), st.sampled_from(UNARY), orders)
def test_functions_of_one_array_give_what_numpy_gives(
    operands: tuple[Array, Array], op: Op, order: Op
) -> None:
    a = order(operands[0])
    with everything_pooled():
        assert_same(outcome(op, enter(a)), outcome(op, a))


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (4,)),
        ((1, 3, 4), (6, 1, 4, 2)),
        ((3, 4), (3, 4)),
        ((), (3,)),
        ((2, 3, 4), (3, 4, 5)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16", "float16"])
def test_products_of_matrices_give_what_numpy_gives(
    everything_is_pooled: None, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    a, b = (filled(dtype, shape, i) for i, shape in enumerate(shapes))
    for name in ("C", "F", "swapped"):
        x = ORDERS[name](a)
        expected = outcome(np.matmul, x, b)
        for ours in (
            outcome(np.matmul, enter(x), b),
            outcome(xp.matmul, x, b),
            outcome(np.matmul, x, enter(b)),
        ):
            if isinstance(expected, type):
                assert ours is expected
            else:
                assert ours.shape == expected.shape
                np.testing.assert_allclose(ours, expected, rtol=1e-6)


FUNCTIONS: dict[str, Op] = {
    "where": lambda x, y: np.where(x.real > 2, x, y),
    "where a number": lambda x, y: np.where(y.real > 3, 0, x),
    "where two numbers": lambda x, y: np.where(x.real > y.real, 1.5, 2),
    "where broadcast": lambda x, y: np.where(x[:1].real > 2, x, y[:, :1]),
    "where of two dtypes": lambda x, y: np.where(x.real > 2, x, np.ones(3, np.float64)),
    "where not bool": lambda x, y: np.where(np.sign(x.real - 2), x, y),
    "concatenate": lambda x, y: np.concatenate((x, y, x), axis=1),
    "concatenate from the end": lambda x, y: np.concatenate([x, y], axis=-2),
    "stack": lambda x, y: np.stack((x, y), axis=1),
    "stack at the end": lambda x, y: np.stack((x, y), axis=-1),
    "sum": lambda x, y: np.sum(x, axis=0),
    "sum kept": lambda x, y: np.sum(x, axis=(1, -3), keepdims=True),
    "sum in another dtype": lambda x, y: np.sum(x, axis=1, dtype=np.complex128),
    "sum of all": lambda x, y: np.sum(x),
    "sum by method": lambda x, y: x.sum(1),
    "prod": lambda x, y: np.prod(x, axis=-1),
    "max": lambda x, y: np.max(x.real, axis=1, keepdims=True),
    "mean": lambda x, y: np.mean(x, axis=(0, 2), keepdims=True),
    "mean of all": lambda x, y: np.mean(x),
    "mean by method": lambda x, y: x.mean(axis=1),
    "any": lambda x, y: np.any(x.real > 2, axis=1),
    "cumulative_sum": lambda x, y: np.cumulative_sum(x, axis=1),
    "cumulative_prod": lambda x, y: np.cumulative_prod(np.flip(x, 0), axis=0),
    "take": lambda x, y: np.take(x, np.array([[1, -1], [0, 0]]), axis=1),
    "rows": lambda x, y: x[np.array([1, 0, -1])],
    "a mask": lambda x, y: x[x.real > 2],
    "a slice": lambda x, y: x[1:, ::-1, None],
    "reshape": lambda x, y: np.reshape(x, (-1, 2)),
    "reshape transposed": lambda x, y: x.T.reshape(4, -1),
    "copy": lambda x, y: np.copy(x),
    "copy in C order": lambda x, y: x.T.copy(),
    "astype": lambda x, y: x.astype(np.complex64),
    "zeros_like": lambda x, y: np.zeros_like(x),
    "ones_like": lambda x, y: np.ones_like(x.T, dtype=np.int8),
    "flip": lambda x, y: np.flip(x, axis=1) + y,
    "clip": lambda x, y: np.clip(x.real, 2, 3),
    "tril": lambda x, y: np.tril(x, k=-1),
    "triu": lambda x, y: np.triu(x, k=1),
    "einsum": lambda x, y: np.einsum("ijk,ijl->ikl", x, y),
    "roll": lambda x, y: np.roll(x, 2, axis=1),
    "reduceat": lambda x, y: np.add.reduceat(x, np.array([0, 1]), axis=0),
    "in place": lambda x, y: in_place(x.copy(), y),
    "into": lambda x, y: np.multiply(x, y, out=x.copy()),
    "an item written": lambda x, y: written(x.copy(), y),
}


def in_place(x: Any, y: Any) -> Any:
    x += y
    x *= 2
    x -= x * y
    x /= y
    return x


def written(x: Any, y: Any) -> Any:
    x[:, 0] = y[:, 1]
    np.add.at(x, np.array([0, 0]), y[0])
    return x


@pytest.mark.parametrize("dtype", [*FLOATING, *COMPLEX])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_what_numpy_gives(everything_is_pooled: None, name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    for order in ORDERS.values():
        x, y = order(filled(dtype, (2, 4, 3), 1)), filled(dtype, (2, 4, 3), 2)
        ours, expected = outcome(function, enter(x), enter(y)), outcome(function, x, y)
        assert not isinstance(expected, type)
        expected = np.asarray(expected)
        assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(ours, expected)


def test_selecting_keeps_nan_infinity_and_the_sign_of_zero(everything_is_pooled: None) -> None:
    x = np.array([np.nan, np.inf, -0.0, 1.0])
    mask = np.array([True, False, True, False])
    out = leave(np.where(enter(mask), x, -x))
    assert out.tobytes() == np.where(mask, x, -x).tobytes()


def test_a_wrong_index_is_an_error_as_in_numpy(everything_is_pooled: None) -> None:
    x = enter(np.ones((3, 2)))
    for index in (np.array([3]), np.array([-4]), (np.array([0]), np.array([5]))):
        with pytest.raises(IndexError):
            x[index]
    with pytest.raises(IndexError):
        np.take(x, np.array([3]), axis=0)


def test_shapes_that_do_not_fit_are_errors_as_in_numpy(everything_is_pooled: None) -> None:
    x = enter(np.ones((3, 2)))
    with pytest.raises(ValueError, match="broadcast"):
        x + np.ones((4, 2))
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        np.matmul(x, np.ones((3, 2)))
    with pytest.raises(ValueError, match="cannot reshape"):
        x.T.reshape(7)


def gradients(sample: Sample, arrays: list[Array]) -> list[Array]:
    inputs = [tensor.tensor(array, requires_grad=True) for array in arrays]
    out = sample.function(*inputs)
    out.backward(tensor.tensor(values(out.shape, "any", out.dtype, np.random.default_rng(1))))
    return [out.detach().numpy(), *[x.grad.numpy() for x in inputs if x.grad is not None]]


@pytest.mark.soak
@pytest.mark.parametrize(("sample", "seed"), sampled([*REAL, *COMPLEX_SAMPLES]))
def test_values_and_gradients_are_the_same_with_and_without_the_pool(sample: Sample, seed: int) -> None:
    for lay_out in LAYOUTS.values():
        arrays = [lay_out(array) for array in arrays_of(sample, seed)]
        expected = gradients(sample, arrays)
        with everything_pooled():
            ours = gradients(sample, arrays)
        for x, y in zip(ours, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(4, 1, 400), (1, 500, 1), (4, 1, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_results_of_expanded_operands_lie_in_numpys_order(shape, order) -> None:
    x = np.broadcast_to(np.ones(shape), (4, 500, 400)).transpose(order)
    expanded = tensor.from_numpy(np.ones(shape)).expand(4, 500, 400).permute(*order)
    assert (expanded + 1).numpy().strides == (x + 1).strides
    assert (2 - expanded).numpy().strides == (2 - x).strides
    assert tensor.exp(expanded).numpy().strides == np.exp(x).strides
