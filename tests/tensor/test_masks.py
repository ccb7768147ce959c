"""Masks that select, against NumPy's choice."""

from __future__ import annotations

import numpy as np
import pytest

from tensor.kernels.masks import keep_nonzero, keep_true

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
def test_kept_is_what_numpy_would_choose(dtype, step):
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
