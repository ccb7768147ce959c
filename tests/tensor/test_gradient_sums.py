"""Gradients that are added to those of leaves, in each dtype and layout, as NumPy adds."""

from __future__ import annotations

import numpy as np
import pytest

import tensor

ORDERS = {
    "rows": lambda array: array.copy("C"),
    "columns": lambda array: array.copy("F"),
    "every other": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "backward": lambda array: array[::-1].copy()[::-1],
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("order", ORDERS)
def test_gradient_is_accumulated_in_place_for_any_memory_order(dtype, shape, order):
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    if first.dtype.kind == "c":
        first, second = (np.asarray(x, dtype) for x in (first + second * 1j, second - first * 1j))
    x = tensor.zeros(shape, dtype=dtype, requires_grad=True)
    x.grad = tensor.from_numpy(ORDERS[order](first) if shape else first.copy())
    grad = x.grad
    (x * 1).backward(tensor.from_numpy(second))
    assert x.grad is grad
    np.testing.assert_array_equal(np.asarray(grad.numpy()), first + second)


def test_halves_add_up_as_numpys_do():
    # All patterns of bits, with some others: normal, subnormal, infinite, nan, of either sign.
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for other in np.float16([0.0, -0.0, 1.0, -1.0, 6e-8, -6e-8, 6.1e-5, 1e-3, 65504, -65504, np.inf, np.nan]):
        x = tensor.zeros(every.shape, dtype=tensor.float16, requires_grad=True)
        x.grad = tensor.from_numpy(every.copy())
        (x * 1).backward(tensor.full(every.shape, float(other), dtype=tensor.float16))
        with np.errstate(all="ignore"):
            expected = every + other
        found = x.grad.numpy()
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


def test_one_gradient_that_two_leaves_share_gets_both():
    x, y = (tensor.zeros((2,), requires_grad=True) for _ in range(2))
    x.grad = y.grad = tensor.ones((2,))
    (x * 2 + y * 3).sum().backward()
    assert x.grad is y.grad
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_gradient_that_is_one_number_seen_often_is_replaced():
    x = tensor.zeros((3,), requires_grad=True)
    x.grad = tensor.ones((1,)).expand(3)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0]
