"""Where a derivative is not unique or not finite, the gradient is PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor
from tensor import Tensor, autograd

INF, NAN = math.inf, math.nan


def gradient(function, *values: object, is_recorded: bool = False) -> list[list[float]]:
    """Return the gradients of the sum of `function` by each of `values`; warnings are errors here."""
    inputs = [tensor.tensor(value, dtype="float32", requires_grad=True) for value in values]
    function(*inputs).sum().backward(create_graph=is_recorded)
    for x in inputs:
        assert x.grad is None or (x.grad.dtype, x.grad.shape) == (x.dtype, x.shape)
    return [x.grad.tolist() for x in inputs]


# Of one argument: the function, where, and the gradient there.
ONE = {
    "abs at 0": (lambda x: x.abs(), [-2, 0, 2], [-1, 0, 1]),
    "sign": (lambda x: x.sign(), [-2, 0, 2], [0, 0, 0]),
    "rounding": (lambda x: x.floor() + x.ceil() + x.round() + x.trunc(), [0.5, 1], [0, 0]),
    "relu at 0": (lambda x: x.relu(), [-1, 0, 1], [0, 0, 1]),
    "leaky_relu at 0": (lambda x: tensor.leaky_relu(x, 0.5), [-1, 0, 1], [0.5, 0.5, 1]),
    "elu at 0": (lambda x: tensor.elu(x, 0.5), [0, 1], [0.5, 1]),
    "clamp at its bounds": (lambda x: x.clamp(0, 1), [-1, 0, 0.5, 1, 2], [0, 1, 1, 1, 0]),
    "sqrt at 0": (lambda x: x.sqrt(), [0, 4], [INF, 0.25]),
    "log at 0": (lambda x: x.log(), [4], [0.25]),
    "square root of a square": (lambda x: (x * x).sqrt(), [3], [1]),
    "a power of 0": (lambda x: x**0, [0, 2], [0, 0]),
    "the first power": (lambda x: x**1, [0, 2], [1, 1]),
    "the square": (lambda x: x**2, [0, 2], [0, 4]),
    "the root as a power": (lambda x: x**0.5, [0, 4], [INF, 0.25]),
    "a base of 0": (lambda x: 0**x, [0, 2], [0, 0]),
    "maximum with a number, tied": (lambda x: tensor.maximum(x, 1.0), [0, 1, 2], [0, 0.5, 1]),
    "norm at 0": (lambda x: x.norm(), [0, 0], [0, 0]),
    "norm": (lambda x: x.norm(), [3, 4], [0.6, 0.8]),
    "1-norm at 0": (lambda x: x.norm(1), [0, -2], [0, -1]),
    "3-norm at 0": (lambda x: x.norm(3), [0, 0], [0, 0]),
    "largest norm, tied": (lambda x: x.norm(INF), [2, -2, 1], [0.5, -0.5, 0]),
    "amax, tied": (lambda x: x.amax(), [3, 1, 3], [0.5, 0, 0.5]),
    "amin, tied": (lambda x: x.amin(0), [3, 1, 1], [0, 0.5, 0.5]),
    "max of all, tied": (lambda x: x.max(), [3, 1, 3], [0.5, 0, 0.5]),
    "max along a dimension goes to the index": (lambda x: x.max(0).values, [3, 1, 3], [1, 0, 0]),
    "min along a dimension goes to the index": (lambda x: x.min(0).values, [3, 1, 1], [0, 1, 0]),
    "prod with a 0": (lambda x: x.prod(), [2, 0, 3], [0, 6, 0]),
    "prod with two 0": (lambda x: x.prod(), [0, 0, 3], [0, 0, 0]),
    "cumprod with a 0": (lambda x: x.cumprod(0), [2, 0, 3], [1, 8, 0]),
    "std of equal values": (lambda x: x.std(), [2, 2], [0, 0]),
    "logsumexp with -inf": (lambda x: x.logsumexp(0), [-INF, 0], [0, 1]),
    "softmax of large values": (lambda x: x.softmax(0)[0], [1000, 1000], [0.25, -0.25]),
    "log_softmax of large values": (lambda x: x.log_softmax(0)[0], [1000, -1000], [0, 0]),
    "softmax of one number": (lambda x: x.softmax(0), 2, 0),
    "log_softmax of one number": (lambda x: x.log_softmax(0), 2, 0),
    "logsumexp of one number": (lambda x: x.logsumexp(0), 2, 1),
    "cumsum of one number": (lambda x: x.cumsum(0), 2, 1),
    "cumprod of one number": (lambda x: x.cumprod(0), 0, 1),
    "logcumsumexp of one number": (lambda x: x.logcumsumexp(0), 2, 1),
    "sigmoid far out": (lambda x: x.sigmoid(), [-1000, 1000], [0, 0]),
    "softplus far out": (lambda x: tensor.softplus(x), [-1000, 1000], [0, 1]),
    "logsigmoid far out": (lambda x: tensor.logsigmoid(x), [-1000, 1000], [1, 0]),
    "tanh far out": (lambda x: x.tanh(), [-1000, 1000], [0, 0]),
    "gelu far out": (lambda x: tensor.gelu(x), [-1000, 1000, 1e30], [0, 1, 1]),
    "gelu near 0": (lambda x: tensor.gelu(x), [-1e-45, 0, 3e-45, 1e-30], [0.5, 0.5, 0.5, 0.5]),
    "gelu by tanh far out": (lambda x: tensor.gelu(x, "tanh"), [-1e30, -1000, 1000, 1e30], [0, 0, 1, 1]),
    "silu far out": (lambda x: tensor.silu(x), [-1000, 1000, 1e30], [0, 1, 1]),
    "silu near 0": (lambda x: tensor.silu(x), [-1e-45, 0, 3e-45, 1e-30], [0.5, 0.5, 0.5, 0.5]),
    "softplus around its bend": (lambda x: tensor.softplus(x, 1, 2), [1.95, 2.083], [0.875447, 1]),
    "leaky_relu that turns back": (lambda x: tensor.leaky_relu(x, -0.5), [-2, 0, 2], [-0.5, -0.5, 1]),
    "elu that turns back": (lambda x: tensor.elu(x, -2), [-1, 0, 2], [-2 / math.e, -2, 1]),
    "leaky_relu of -inf": (lambda x: tensor.leaky_relu(x, 0.5), [-INF, 1], [0.5, 1]),
    "elu of infinities": (lambda x: tensor.elu(x), [-INF, INF], [0, 1]),
    "where leaves the other branch out": (lambda x: x.where(x > 1, 0.0), [0, 2], [0, 1]),
}  # fmt: skip

# What selects passes nothing on to what it left out, also where the next slope is infinite.
MASKED = {
    "clamp from below": (lambda x: x.clamp(min=0), [-1, 4], [0, 0.25]),
    "clamp from above": (lambda x: x.clamp(max=0), [1, 0], [0, INF]),
    "clamp by a tensor": (lambda x: x.clamp(x.detach() * 0), [-1, 4], [0, 0.25]),
    "relu": (lambda x: x.relu(), [-1, 4], [0, 0.25]),
    "leaky_relu to both sides": (lambda x: tensor.leaky_relu(x, -1), [-4, 4], [-0.25, 0.25]),
    "elu": (lambda x: tensor.elu(x) + 1, [-INF, 3], [NAN, 0.25]),
    "softplus with a bend": (lambda x: tensor.softplus(x, 1, 2), [4], [0.25]),
    "maximum": (lambda x: tensor.maximum(x, 0), [-1, 4], [0, 0.25]),
    "minimum": (lambda x: tensor.minimum(x, 0), [1], [0]),
    "where": (lambda x: tensor.where(x > 0, x, 0.0), [-1, 4], [0, 0.25]),
    "masked_fill": (lambda x: x.masked_fill(x < 0, 0), [-1, 4], [0, 0.25]),
    "max along a dimension": (lambda x: x.max(0)[0], [-1, 0], [0, INF]),
    "min along a dimension": (lambda x: x.min(0)[0], [1, 0], [0, INF]),
    "max": (lambda x: x.max(), [-1, 0], [0, INF]),
    "min": (lambda x: x.min(), [1, 0], [0, INF]),
    "amax": (lambda x: x.amax(0), [-1, 0], [0, INF]),
    "sort": (lambda x: x.sort()[0][1:], [-1, 0], [0, INF]),
    "topk": (lambda x: x.topk(1)[0], [-1, 0], [0, INF]),
    "gather": (lambda x: x.gather(0, tensor.tensor([1])), [-1, 0], [0, INF]),
    "tril": (lambda x: x.reshape(1, 2).tril(), [0, 7], [INF, 0]),
    "2-norm at 0": (lambda x: x.norm(), [0, 0], [0, 0]),
    "3-norm at 0": (lambda x: x.norm(3), [0, 0], [0, 0]),
    "largest norm": (lambda x: x.norm(-INF), [0, 3], [NAN, 0]),
    "std of equal values": (lambda x: x.std(), [2, 2], [0, 0]),
    "the power 0": (lambda x: x**0 - 1, [2], [0]),
    "powers 0": (lambda x: x ** tensor.tensor([0.0, 1.0]) - tensor.tensor([1.0, 0.0]), [2, 4], [0, 0.25]),
    "a base of 0": (lambda x: 0**x, [2], [0]),
    "bases of 0": (lambda x: tensor.tensor([0.0, 1.0]) ** x, [2, 2], [0, 0]),
}  # fmt: skip

# Of two arguments.
TWO = {
    "maximum, tied": (tensor.maximum, [1, 2, 3], [1, 1, 4], [0.5, 1, 0], [0.5, 0, 1]),
    "minimum, tied": (tensor.minimum, [1, 2, 3], [1, 1, 4], [0.5, 0, 1], [0.5, 1, 0]),
    "atan2 at the origin": (tensor.atan2, [0, 0], [0, 2], [0, 0.5], [0, 0]),
    "logaddexp of infinities": (tensor.logaddexp, [INF, 0], [0, 0], [1, 0.5], [0, 0.5]),
    "pow at 0": (tensor.pow, [0, 0], [0, 2], [0, 0], [0, 0]),
    "remainder": (tensor.remainder, [5, -5], [3, 3], [1, 1], [-1, 2]),
    "clamp by tensors": (lambda x, low: x.clamp(low), [0, 1, 2], [1, 1, 1], [0, 1, 1], [1, 0, 0]),
    "clamp from above": (lambda x, high: x.clamp(max=high), [0, 1, 2], [1, 1, 1], [1, 1, 0], [0, 0, 1]),
    "copysign": (tensor.copysign, [2, -2], [-1, -1], [-1, 1], [0, 0]),
    "nextafter": (tensor.nextafter, [0, 1, 2], [1, 1, 1], [1, 0, 1], [0, 1, 0]),
    "where": (lambda x, y: tensor.where(x > y, x, y), [1, 3], [2, 2], [0, 1], [1, 0]),
}  # fmt: skip


# A gradient that has derivatives itself is computed by other formulas.
@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(("function", "value", "expected"), ONE.values(), ids=ONE)
def test_of_one_argument(function, value, expected, is_recorded):
    (ours,) = gradient(function, value, is_recorded=is_recorded)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-7)


def test_the_gradient_of_clamp_belongs_to_what_the_result_is_also_if_the_bounds_cross():
    x = [0, 1, 2, 3, 4, 0, 5, 9]
    low = [1, 1, 1, 1, 1, 6, 6, 6]
    high = [3, 3, 3, 3, 3, 4, 4, 4]
    by_x, by_low, by_high = gradient(Tensor.clamp, x, low, high)
    assert by_x == [0, 1, 1, 1, 0, 0, 0, 0]
    assert by_low == [1, 0, 0, 0, 0, 0, 0, 0]
    assert by_high == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(("function", "value", "expected"), MASKED.values(), ids=MASKED)
def test_an_infinite_slope_behind_a_mask_makes_no_nan(function, value, expected, is_recorded):
    x = tensor.tensor(value, dtype="float64", requires_grad=True)
    (ours,) = autograd.grad(function(x).sqrt().sum(), x, create_graph=is_recorded)
    np.testing.assert_allclose(ours.detach().numpy(), expected)


def test_an_infinite_slope_behind_products_makes_no_nan_in_a_first_derivative():
    assert gradient(lambda x: x.prod().sqrt(), [0, 0, 3]) == [[0, 0, 0]]
    assert gradient(lambda x: x.cumprod(0).sqrt(), [4, 0, 3]) == [[0.25, INF, 0]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [3, 5_000, 300_000, 2_000_000])
def test_an_infinite_slope_behind_a_mask_makes_no_nan_at_any_size(size, dtype):
    for function in (Tensor.relu, lambda x: x.clamp(min=0), lambda x: tensor.maximum(x, 0)):
        x = tensor.full((size,), -1, dtype=dtype)
        x[::3] = 4
        x.requires_grad_()
        function(x).sqrt().backward(tensor.ones((size,), dtype=dtype))
        np.testing.assert_array_equal(x.grad.numpy(), np.where(np.arange(size) % 3, 0, 0.25))


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(("function", "a", "b", "by_a", "by_b"), TWO.values(), ids=TWO)
def test_of_two_arguments(function, a, b, by_a, by_b, is_recorded):
    ours = gradient(function, a, b, is_recorded=is_recorded)
    np.testing.assert_allclose(ours, [by_a, by_b], rtol=1e-5, atol=1e-7)


def test_nan_stays_visible_where_pytorch_shows_it():
    for function in (Tensor.relu, tensor.gelu, tensor.silu, tensor.softplus):
        x = tensor.tensor([NAN, 1.0], requires_grad=True)
        function(x).backward(tensor.tensor([1.0, 1.0]))
        ours = x.grad.tolist()
        assert ours[0] == 1.0 if function is Tensor.relu else math.isnan(ours[0])


def test_a_norm_of_rows_is_0_where_the_row_is():
    (ours,) = gradient(lambda x: x.norm(dim=1), [[0, 0], [3, 4]])
    np.testing.assert_allclose(ours, [[0, 0], [0.6, 0.8]], rtol=1e-6)


def test_complex_values_at_0():
    for function in (Tensor.abs, Tensor.norm):
        z = tensor.tensor([0j, 3 + 4j], requires_grad=True)
        function(z).sum().backward()
        np.testing.assert_allclose(z.grad.numpy(), [0, 0.6 + 0.8j], rtol=1e-6)


def test_an_unselected_branch_with_an_infinite_derivative_still_makes_nan_as_in_pytorch():
    (ours,) = gradient(lambda x: x.sqrt().where(x > 0, 0.0), [0, 4])
    assert ours[1] == 0.25
    assert math.isnan(ours[0])
