"""Softmax and its kin on several threads, of short and of long rows, of infinities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor import memory
from tensor.kernels import mean_cross_entropy
from tensor.kernels.reductions import cross_entropy_backward
from tests.tensor.cutting import three_threads

# Rows as short as a vector and as long as several blocks, columns fewer and more than are worked on at once.
SHAPES = [(64, 10), (3, 4, 32), (5, 33), (1, 7), (9, 700), (4096, 40), (7, 40_000), (2, 700, 3), (3, 20, 300)]
FUNCTIONS = (tensor.softmax, tensor.log_softmax, tensor.logsumexp)
INF = float("inf")


def reference(name: str, array: np.ndarray, axis: int) -> np.ndarray:
    wide = array.astype(np.longdouble)
    top = wide.max(axis=axis, keepdims=True)
    exps = np.exp(wide - top)
    sums = exps.sum(axis=axis, keepdims=True)
    if name == "softmax":
        return exps / sums
    return wide - top - np.log(sums) if name == "log_softmax" else (np.log(sums) + top).squeeze(axis)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@given(
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    last=st.sampled_from([1, 10, 40, 300]),
    dtype=st.sampled_from(["float16", "float32", "float64", "int64"]),
    data=st.data(),
)
def test_no_bit_depends_on_the_number_of_threads(function, shape, last, dtype, data):
    array = np.random.default_rng(last).uniform(-9, 9, (*shape, last)).astype(dtype)
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    x = tensor.tensor(array)
    with three_threads():
        several = function(x, axis=axis).numpy()
        tensor.set_num_threads(1)
        alone = function(x, axis=axis).numpy()
    np.testing.assert_array_equal(several, alone)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [0, -2, -1])
def test_values_are_those_of_wider_numbers(function, shape, axis):
    array = np.random.default_rng(0).uniform(-20, 20, shape).astype(np.float32)
    found = function(tensor.tensor(array), axis=axis).numpy()
    expected = reference(function.__name__, array, axis)
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=2e-6, atol=5e-6)
    turned = function(tensor.tensor(array.T).T, axis=axis).numpy()
    np.testing.assert_allclose(turned, found, rtol=2e-6, atol=4e-6)


@pytest.mark.parametrize("columns", [1, 3, 8, 10, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_short_row_gives_the_same_bits_wherever_it_lies(columns, dtype):
    rows = np.random.default_rng(columns).uniform(-9, 9, (37, columns)).astype(dtype)
    classes = np.arange(37) % columns
    wholes = [function(tensor.tensor(rows), axis=1).numpy() for function in FUNCTIONS]
    _, tops, sums = mean_cross_entropy(rows, classes)
    np.testing.assert_array_equal(tops, rows.max(axis=1))
    for i in range(37):
        row = rows[i : i + 1].copy()
        for function, whole in zip(FUNCTIONS, wholes, strict=True):
            np.testing.assert_array_equal(function(tensor.tensor(row), axis=1).numpy(), whole[i : i + 1])
        _, top, total = mean_cross_entropy(row, classes[i : i + 1])
        assert (top[0], total[0]) == (tops[i], sums[i])


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [0, -2, -1])
def test_gradients_are_those_of_the_formula(name, dtype, shape, axis):
    rng = np.random.default_rng(0)
    array, slope = rng.uniform(-20, 20, shape).astype(dtype), rng.uniform(-1, 1, shape).astype(dtype)
    shares, wide = reference("softmax", array, axis), slope.astype(np.longdouble)
    if name == "softmax":
        expected = shares * (wide - (wide * shares).sum(axis=axis, keepdims=True))
    else:
        expected = wide - shares * wide.sum(axis=axis, keepdims=True)
    for x, g in ((array, slope), (array.T, slope.T)):
        x = tensor.tensor(x, requires_grad=True)
        turned = (lambda y: y) if g is slope else np.transpose
        getattr(tensor, name)(x, axis=axis if g is slope else -1 - axis).backward(tensor.tensor(g))
        tolerance = 2e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(
            turned(x.grad.numpy()), expected.astype(dtype), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [0, 1])
def test_doubles_are_as_exact_as_doubles_can_be(function, axis):
    array = np.random.default_rng(0).uniform(-20, 20, (300, 170))
    found = function(tensor.tensor(array), axis=axis).numpy()
    np.testing.assert_allclose(
        found, reference(function.__name__, array, axis).astype(float), rtol=1e-14, atol=1e-14
    )


@pytest.mark.parametrize("count", [2, 40, 3000])
def test_infinities_and_nan_change_their_columns_alone(count):
    array = np.zeros((count, 4), np.float32)
    array[0, 1], array[1, 2], array[:, 3] = INF, np.nan, -INF
    array[: count // 2, 0] = -INF
    x = tensor.tensor(array)
    assert np.isnan(x.softmax(0).numpy()).sum(axis=0).tolist() == [0, count, count, count]
    assert np.isnan(x.log_softmax(0).numpy()).sum(axis=0).tolist() == [0, count, count, count]
    sums = x.logsumexp(0).numpy()
    assert sums[0] == pytest.approx(np.log(count - count // 2))
    assert (sums[1], sums[3]) == (INF, -INF)
    assert np.isnan(sums[2])


def test_logsumexp_takes_adjacent_and_other_axes():
    array = np.random.default_rng(0).uniform(-9, 9, (3, 4, 5, 6))
    for axis in ((1, 2), (2, 1), (0, 1), (2, 3), (0, 2), (1, 3), (0, 1, 2, 3), None):
        for keepdims in (False, True):
            found = tensor.logsumexp(tensor.tensor(array), axis=axis, keepdims=keepdims).numpy()
            expected = np.log(np.exp(array).sum(axis=axis, keepdims=keepdims))
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("count", [2, 40, 200_000])
def test_infinities_and_nan_change_their_rows_alone_without_a_warning(count):
    array = np.zeros((4, count), np.float32)
    array[1, 0], array[2, 1], array[3] = INF, np.nan, -INF
    x = tensor.tensor(array)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(x.softmax(1).numpy()).sum(axis=1).tolist() == [0, count, count, count]
        assert np.isnan(x.log_softmax(1).numpy()).sum(axis=1).tolist() == [0, count, count, count]
        sums = x.logsumexp(1).numpy()
    assert sums[0] == pytest.approx(np.log(count))
    assert (sums[1], sums[3]) == (INF, -INF)
    assert np.isnan(sums[2])


@pytest.mark.parametrize(
    "function", [*FUNCTIONS, tensor.sigmoid, tensor.silu, tensor.sum], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("count", [3, 300_000])
def test_large_numbers_are_no_reason_to_warn(function, count):
    x = tensor.full((2, count), 1e30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = function(x, axis=1) if function in (*FUNCTIONS, tensor.sum) else function(x)
    assert np.isfinite(found.numpy()).all()


@pytest.mark.parametrize(("function", "others"), [(tensor.softmax, 0), (tensor.logsumexp, 1)])
def test_a_call_allocates_at_most_one_array_in_addition_to_the_result(function, others):
    x = tensor.ones((64, 32_000))
    with memory.measure() as measured:
        out = function(x, axis=1)
    assert measured.peak_bytes_change <= out.nbytes + others * x.nbytes


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_the_cross_entropy_of_a_kernel_takes_classes_of_any_integer_dtype(dtype: str) -> None:
    logits = np.random.default_rng(0).standard_normal((50, 7))
    found = mean_cross_entropy(logits, np.full(50, 3, dtype))
    expected = np.mean(np.log(np.exp(logits).sum(1)) - logits[:, 3])
    assert found is not None
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


def test_logits_and_classes_of_a_kernel_are_as_many() -> None:
    with pytest.raises(ValueError, match=r"not \(50, 7\) and \(40,\)"):
        mean_cross_entropy(np.zeros((50, 7)), np.zeros(40, np.int64))


@pytest.mark.parametrize("wrong", [-1, 7, 2**62, -(2**63)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_invalid_class_makes_only_its_own_row_of_the_gradient_nan(dtype: str, wrong: int) -> None:
    logits = np.random.default_rng(0).standard_normal((4, 7)).astype(dtype)
    classes = np.array([0, 6, 3, 2])
    found = mean_cross_entropy(logits, classes)
    assert found is not None
    _, tops, sums = found
    expected = cross_entropy_backward(np.array(1.0), logits, classes, tops, sums)
    classes[2] = wrong
    gradient = cross_entropy_backward(np.array(1.0), logits, classes, tops, sums)
    assert np.isnan(gradient[2]).all()
    np.testing.assert_array_equal(gradient[[0, 1, 3]], expected[[0, 1, 3]])
    assert mean_cross_entropy(logits, classes) is None
