"""Derivatives of reductions, cumulations and the softmax family."""

from __future__ import annotations

import math
from typing import Any

from tensor._derivatives._table import conj, define


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


def _prod(xp: Any, g: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Return g times the product of all the others: right where some are 0 too."""
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    if axis is None:
        flat = xp.reshape(x, (-1,))
        return g * conj(xp, xp.reshape(_product_of_others(xp, flat, 0), x.shape))
    if not isinstance(axis, int):
        kept = [i for i in range(x.ndim) if i not in _axes(axis, x.ndim)]
        order = (*kept, *_axes(axis, x.ndim))
        moved = xp.permute_dims(x, order)
        flat = xp.reshape(moved, (*moved.shape[: len(kept)], -1))
        others = xp.reshape(_product_of_others(xp, flat, len(kept)), moved.shape)
        back = tuple(order.index(i) for i in range(x.ndim))
        return g * conj(xp, xp.permute_dims(others, back))
    return g * conj(xp, _product_of_others(xp, x, axis % x.ndim))


def _product_of_others(xp: Any, x: Any, axis: int) -> Any:
    whole = (slice(None),) * axis
    one = xp.ones_like(x[(*whole, slice(0, 1))])
    before = xp.cumulative_prod(xp.concat([one, x[(*whole, slice(None, -1))]], axis=axis), axis=axis)
    turned = xp.flip(x, axis=axis)
    after = xp.cumulative_prod(xp.concat([one, turned[(*whole, slice(None, -1))]], axis=axis), axis=axis)
    return before * xp.flip(after, axis=axis)


def _variance(xp: Any, g: Any, x: Any, axis: Any, keepdims: bool, correction: float) -> Any:
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    centred = x - xp.mean(x, axis=axis, keepdims=True)
    return g * (2 / (_count(x.shape, axis) - correction)) * centred


def _deviation(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool, correction: float) -> Any:
    out = with_kept_dims(xp, out, x.shape, axis, keepdims)
    slope = with_kept_dims(xp, g, x.shape, axis, keepdims) / xp.where(out == 0, 1, out)
    centred = x - xp.mean(x, axis=axis, keepdims=True)
    return slope * centred / (_count(x.shape, axis) - correction)


def _extreme(xp: Any, g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    """Equal elements share the gradient equally (PyTorch's amax and amin)."""
    g = with_kept_dims(xp, g, x.shape, axis, keepdims)
    winners = x == with_kept_dims(xp, out, x.shape, axis, keepdims)
    return g * winners / xp.sum(winners, axis=axis, keepdims=True, dtype=g.dtype)


def _cumulative_sum(xp: Any, g: Any, axis: int) -> Any:
    return xp.flip(xp.cumulative_sum(xp.flip(g, axis=axis), axis=axis), axis=axis)


def _cumulative_prod(xp: Any, g: Any, x: Any, axis: int) -> Any:
    """Sum over the later outputs of their product without this element, O(n^2), right at zeros too."""
    axis %= x.ndim
    whole = (slice(None),) * axis
    parts = []
    for i in range(x.shape[axis]):
        here = (*whole, slice(i, i + 1))
        one = xp.ones_like(x[here])
        before = xp.prod(x[(*whole, slice(0, i))], axis=axis, keepdims=True)
        rest = xp.concat([one, x[(*whole, slice(i + 1, None))]], axis=axis)
        products = before * xp.cumulative_prod(rest, axis=axis)
        parts.append(xp.sum(g[(*whole, slice(i, None))] * conj(xp, products), axis=axis, keepdims=True))
    return xp.concat(parts, axis=axis) if parts else g


define("sum", x=lambda xp, g, shape, axis, keepdims: expand_reduced(xp, g, shape, axis, keepdims))
define("mean", x=_mean)
define("prod", x=_prod)
define("var", x=_variance)
define("std", x=_deviation)
define("max", x=_extreme)
define("min", x=_extreme)
define("cumulative_sum", x=_cumulative_sum)
define("cumulative_prod", x=_cumulative_prod)
define(
    "logsumexp",
    x=lambda xp, g, x, out, axis, keepdims: (
        with_kept_dims(xp, g, x.shape, axis, keepdims)
        * xp.exp(x - with_kept_dims(xp, out, x.shape, axis, keepdims))
    ),
)
define("softmax", x=lambda xp, g, out, axis: out * (g - xp.sum(g * out, axis=axis, keepdims=True)))
define("log_softmax", x=lambda xp, g, out, axis: g - xp.exp(out) * xp.sum(g, axis=axis, keepdims=True))
define("all", x=None)
define("any", x=None)
define("argmax", x=None)
define("argmin", x=None)
define("count_nonzero", x=None)
