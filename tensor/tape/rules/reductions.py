"""Derivatives of reductions, cumulations and the softmax family."""

from __future__ import annotations

import math
from typing import Any

from tensor.tape.rules.table import conj, define


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim for a in ((axis,) if isinstance(axis, int) else axis)) if ndim else ()


def with_kept_dims(xp: Any, g: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """Return a reduction's gradient or output with the reduced dimensions of `shape` kept as 1."""
    if keepdims:
        return g
    places = _axes(axis, len(shape))
    return xp.reshape(g, tuple(1 if i in places else n for i, n in enumerate(shape)))


def expand_reduced(xp: Any, g: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """Return a reduction's gradient, broadcast to the `shape` that was reduced."""
    return xp.broadcast_to(with_kept_dims(xp, g, shape, axis, keepdims), shape)


def _count(shape: tuple[int, ...], axis: Any) -> int:
    return math.prod(shape[i] for i in _axes(axis, len(shape)))


def _mean(xp: Any, g: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    return expand_reduced(xp, g / _count(shape, axis), shape, axis, keepdims)


def _prod(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    """Multiply by the product of the other elements: `out` divided by the element, if no element is 0."""
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    is_zero = x == 0
    if not xp.any(is_zero):
        return g * conj(xp, with_kept_dims(xp, out, x.shape, axis, keepdims) / x)
    if xp.is_recorded:
        return g * conj(xp, _product_of_others(xp, x, axis))
    others = xp.where(is_zero, 1, x)
    product = xp.prod(others, axis=axis, keepdims=True)
    zeros = xp.sum(is_zero, axis=axis, keepdims=True)
    return xp.keep_where(g * conj(xp, product / others), (zeros == 0) | (is_zero & (zeros == 1)))


def _product_of_others(xp: Any, x: Any, axis: Any) -> Any:
    """Return the product of the other elements for each element, in a form with derivatives at 0."""
    axes = _axes(axis, x.ndim)
    order = (*[i for i in range(x.ndim) if i not in axes], *axes)
    moved = xp.permute_dims(x, order)
    count = _count(x.shape, axis)
    rows = xp.reshape(moved, (*moved.shape[: x.ndim - len(axes)], 1, count))
    products = xp.prod(xp.where(xp.eye(count) == 1, 1, rows), axis=-1)
    return xp.permute_dims(xp.reshape(products, moved.shape), tuple(order.index(i) for i in range(x.ndim)))


def _centred(xp: Any, x: Any, axis: Any) -> Any:
    return x - xp.mean(x, axis=axis, keepdims=True) if _count(x.shape, axis) else x


def _variance(xp: Any, g: Any, x: Any, axis: Any, keepdims: bool, correction: float) -> Any:
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    return g * 2 * _centred(xp, x, axis) / max(_count(x.shape, axis) - correction, 0)


def _deviation(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool, correction: float) -> Any:
    out = with_kept_dims(xp, out, x.shape, axis, keepdims)
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    slope = xp.keep_where(g / xp.where(out == 0, 1, out), out != 0)
    return slope * _centred(xp, x, axis) / max(_count(x.shape, axis) - correction, 0)


def _extreme(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    """Divide the gradient equally among equal extremes, as PyTorch's amax and amin do."""
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    out = with_kept_dims(xp, out, x.shape, axis, keepdims)
    winners = x == out
    if xp.any(xp.isnan(out)):
        winners = winners | (xp.isnan(x) & xp.isnan(out))  # the maximum or minimum is nan if an element is
    return xp.keep_where(g / xp.sum(winners, axis=axis, keepdims=True, dtype=g.dtype), winners)


def _along(xp: Any, g: Any, kept: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """Return the gradient for the elements at `kept` only (PyTorch's max and min along a dimension)."""
    if axis is None:
        return g
    g = with_kept_dims(xp, g, shape, axis, keepdims)
    places = xp.reshape(xp.arange(shape[axis]), tuple(n if i == axis else 1 for i, n in enumerate(shape)))
    return xp.keep_where(g, places == kept)


def _running_back(xp: Any, g: Any, axis: int) -> Any:
    return xp.flip(xp.cumulative_sum(xp.flip(g, axis=axis), axis=axis), axis=axis)


def _cumulative_sum(xp: Any, g: Any, axis: int | None) -> Any:
    return g if axis is None else _running_back(xp, g, axis)


def _cumulative_prod(xp: Any, g: Any, x: Any, out: Any, axis: int | None) -> Any:
    """Sum, for each element, the gradients of its own and later outputs times products without the element.

    Before the first zero, these products are the outputs divided by the element. For the first zero, they are
    computed with 1 instead of it. For elements after the first zero, they are 0.
    """
    if axis is None:
        return g
    is_zero = x == 0
    if xp.is_recorded and xp.any(is_zero):
        return _by_products_without_it(xp, g, x, axis)
    zeros = xp.cumulative_sum(xp.astype(is_zero, xp.int64), axis=axis)
    first = is_zero & (zeros == 1)
    # Outputs from the first zero on do not depend on earlier elements, and those from the second zero on do
    # not depend on the first zero.
    parts = xp.keep_where(g * conj(xp, out), zeros == 0)
    before = _running_back(xp, parts, axis) / conj(xp, xp.where(is_zero, 1, x))
    without_it = xp.cumulative_prod(xp.where(first, 1, x), axis=axis)
    at_first = _running_back(xp, xp.keep_where(g * conj(xp, without_it), zeros == 1), axis)
    return xp.where(zeros == 0, before, xp.where(first, at_first, 0))


def _by_products_without_it(xp: Any, g: Any, x: Any, axis: int) -> Any:
    """Return the gradient of cumulative products, in a form with derivatives at 0."""
    order = list(range(x.ndim))
    order[axis], order[-1] = order[-1], order[axis]
    rows, weights = (xp.expand_dims(xp.permute_dims(y, tuple(order)), axis=-2) for y in (x, g))
    # Row i has the cumulative products with 1 instead of element i.
    products = xp.cumulative_prod(xp.where(xp.eye(x.shape[axis]) == 1, 1, rows), axis=-1)
    return xp.permute_dims(xp.sum(xp.triu(weights * conj(xp, products)), axis=-1), tuple(order))


def _logsumexp(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    out = with_kept_dims(xp, out, x.shape, axis, keepdims)
    # If all elements are -inf, so is `out`, and the difference would be nan.
    shares = xp.exp(x - xp.where(out == -math.inf, 0, out))
    return with_kept_dims(xp, g, x.shape, axis, keepdims) * conj(xp, shares)


def _logcumsumexp(xp: Any, g: Any, x: Any, out: Any, axis: int) -> Any:
    """Return exp(x) times the cumulative sums of g * exp(-out) from the end.

    Sum the positive and negative parts of `g` separately, as logarithms, because exp(-out) may be infinite.
    """
    if xp.is_recorded:
        highest = xp.max(x, axis=axis, keepdims=True)
        return xp.exp(x - highest) * _running_back(xp, g * xp.exp(highest - out), axis)
    parts = []
    for part in (g, -g):
        terms = xp.log(xp.maximum(part, 0)) - out
        back = xp.flip(xp.logaddexp.accumulate(xp.flip(terms, axis), axis), axis)
        parts.append(xp.exp(x + back))
    return parts[0] - parts[1]


def _softmax(xp: Any, g: Any, out: Any, axis: int | None) -> Any:
    if xp.is_recorded or axis is None:
        return out * (g - xp.sum(g * out, axis=axis, keepdims=True))
    return xp.softmax_backward(g, out, axis)


def _log_softmax(xp: Any, g: Any, out: Any, axis: int | None) -> Any:
    if xp.is_recorded or axis is None:
        return g - xp.exp(out) * xp.sum(g, axis=axis, keepdims=True)
    return xp.log_softmax_backward(g, out, axis)


def _vector_norm(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool, ord: float) -> Any:
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    if ord == 0:
        return xp.zeros_like(x)
    if ord == 1:
        return g * xp.sign(x)
    out = with_kept_dims(xp, out, x.shape, axis, keepdims)
    if abs(ord) == math.inf:
        winners = xp.abs(x) == out
        share = g * xp.sign(x) / xp.sum(winners, axis=axis, keepdims=True, dtype=g.dtype)
        return xp.keep_where(share, winners)
    nonzero = xp.where(out == 0, 1, out)
    if ord == 2:
        return xp.keep_where(g * (x / nonzero), xp.broadcast_to(out != 0, x.shape))
    size = xp.where(x == 0, 1, xp.abs(x))
    return xp.keep_where(g * xp.sign(x) * (size / nonzero) ** (ord - 1), x != 0)


define("sum", x=lambda xp, g, shape, axis, keepdims: expand_reduced(xp, g, shape, axis, keepdims))
define("mean", x=_mean)
define("prod", x=_prod)
define("var", x=_variance)
define("std", x=_deviation)
define("max", x=_extreme)
define("min", x=_extreme)
define("cumulative_sum", x=_cumulative_sum)
define("cumulative_prod", x=_cumulative_prod)
define("logsumexp", x=_logsumexp)
define("logcumsumexp", x=_logcumsumexp)
define("vector_norm", x=_vector_norm)
define("max_along", x=_along)
define("min_along", x=_along)
define("softmax", x=_softmax)
define("log_softmax", x=_log_softmax)
define("all", x=None)
define("any", x=None)
define("argmax", x=None)
define("argmin", x=None)
define("count_nonzero", x=None)
