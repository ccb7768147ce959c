"""Masks that select, against NumPy's choice."""

from __future__ import annotations

import numpy as np
import pytest

import tensor
from tensor.kernels.elementwise import keep_nonzero_ufunc as keep_nonzero
from tensor.kernels.elementwise import keep_true
from tensor.kernels.selecting import keep_where, overwrite_where_nonzero, where, where_nonzero
from tests.tensor.cutting import three_threads

DTYPES = ("float16", "float32", "float64", "complex64", "complex128")


def special(dtype: str, n: int) -> np.ndarray:
    """Values among which are zeros of both signs, infinities, nan and subnormal numbers."""
    some = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, np.finfo(np.float16).smallest_subnormal])
    real = np.resize(some, n)
    values = np.zeros(n, dtype)
    values.real = real
    if values.dtype.kind == "c":
        values.imag = np.roll(real, 3)
    return values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_kept_elements_are_those_that_numpy_chooses(dtype, step):
    x, by = special(dtype, 101)[::step], special(dtype, 107)[3:104][::step]
    zero = np.zeros((), dtype)
    np.testing.assert_array_equal(keep_nonzero(x, by), np.where(by != 0, x, zero))
    np.testing.assert_array_equal(keep_true(x, by != 0), np.where(by != 0, x, zero))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_may_be_broadcast_and_the_result_written_over_the_values(dtype):
    x, by = special(dtype, 24).reshape(4, 6), special(dtype, 6)
    expected = np.where(by != 0, x, np.zeros((), dtype))
    np.testing.assert_array_equal(keep_nonzero(x, by), expected)
    assert keep_nonzero(x, by, x) is x
    np.testing.assert_array_equal(x, expected)


def test_zeros_have_no_sign_and_no_warning_is_given():
    with np.errstate(all="raise"):
        kept = keep_nonzero(np.array([-np.inf, -1.0]), np.array([0.0, -0.0]))
    assert not np.signbit(kept).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["plain", "transposed", "stepped", "broadcast"])
def test_large_arrays_are_chosen_from_by_several_threads(dtype, way):
    ways = {
        "plain": lambda x: x,
        "transposed": np.transpose,
        "stepped": lambda x: x[:, ::-1],
        "broadcast": lambda x: x[:, :1],
    }
    x, other = special(dtype, 300 * 300).reshape(300, 300), special(dtype, 300 * 307).reshape(307, 300)[7:]
    by = ways[way](other)
    zero = np.zeros((), dtype)
    kept = np.where(by != 0, x, zero)
    with three_threads():
        np.testing.assert_array_equal(keep_where(x, by != 0), kept)
        np.testing.assert_array_equal(where(by != 0, x, zero), kept)
        np.testing.assert_array_equal(where(by != 0, x, other), np.where(by != 0, x, other))
        np.testing.assert_array_equal(where_nonzero(x, by), kept)
        over = overwrite_where_nonzero(x, by)
    assert over is x
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize(
    "shape",
    [(4, 3, 70, 80), (70, 80), (1, 1, 70, 80), (3, 70, 80), (4, 1, 70, 80), (1, 80), (70, 1), (1,), ()],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_a_mask_serves_all_that_it_broadcasts_to(shape: tuple[int, ...], dtype: str):
    random = np.random.default_rng(1)
    values, mask = random.standard_normal((4, 3, 70, 80)).astype(dtype), random.random(shape) < 0.5
    x = tensor.tensor(values, requires_grad=True)
    filled = x.masked_fill(tensor.tensor(mask), -1.5)
    expected = np.where(mask, np.array(-1.5, dtype), values)
    assert filled.dtype == values.dtype
    assert filled.detach().numpy().tobytes() == expected.tobytes()
    filled.sum().abs().backward()
    kept = np.broadcast_to(~mask, values.shape)
    assert np.array_equal(x.grad.numpy() != 0, kept)
