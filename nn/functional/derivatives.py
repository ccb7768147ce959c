"""Derivatives of what `nn` computes in one piece, entered into the table of all ops.

What the forward pass makes (the bits of a mask, normalised values, the slope of a loss of classes) comes as a
parameter, and is saved instead of its input.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensor.kernels import empty
from tensor.lowlevel import RULES, define

__all__ = ["RULES"]

# Linear maps and look-ups


def _rows(xp: Any, x: Any) -> Any:
    """Return `x` with all dimensions but the last joined, also where one has no elements."""
    return xp.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _weight_of_linear(xp: Any, g: Any, input: Any) -> Any:
    if g.ndim != 2:
        g, input = _rows(xp, g), _rows(xp, input)
    return xp.matmul(g.mT, input)


def _embedding(xp: Any, g: Any, indices: Any, shape: tuple[int, int], padding_idx: int | None) -> Any:
    rows, g = indices.reshape(-1), _rows(xp, g)
    if padding_idx is not None:
        kept = (rows != padding_idx).nonzero()[0]
        rows, g = rows[kept], g[kept]
    return xp.scatter_add(g, (rows,), shape)


_UNPACKED_AT_ONCE = 2**15


def _unpacked(bits: Any, shape: tuple[int, ...]) -> Any:
    """Return the mask of a dropout, a constant of every derivative: NumPy's, in memory of the pool."""
    bits = np.asarray(bits)
    mask = empty(shape, np.bool_)
    flat = mask.reshape(-1)
    for start in range(0, flat.size, _UNPACKED_AT_ONCE):
        part = flat[start : start + _UNPACKED_AT_ONCE]
        part[...] = np.unpackbits(bits[start // 8 :], count=part.size)
    return mask


define(
    "linear",
    input=lambda xp, g, weight: xp.matmul(g, weight),
    weight=_weight_of_linear,
    bias=lambda xp, g: g,
)
define("embedding", weight=_embedding)
define("dropout", input=lambda xp, g, bits, scale: xp.keep_where(g * scale, _unpacked(bits, g.shape)))

# Normalisation: out = weight * normal + bias, with normal = (x - mean) / deviation, inverse = 1 / deviation


def _normal(xp: Any, g: Any, out: Any, inverse: Any, axes: tuple[int, ...]) -> Any:
    projected = xp.mean(g * out, axis=axes, keepdims=True)
    return inverse * (g - xp.mean(g, axis=axes, keepdims=True) - out * projected)


def _normal_around_0(xp: Any, g: Any, out: Any, inverse: Any, axes: tuple[int, ...]) -> Any:
    return inverse * (g - out * xp.mean(g * out, axis=axes, keepdims=True))


def _inverse(_xp: Any, g: Any, out: Any, normal: Any, axes: tuple[int, ...]) -> Any:
    return (g * out * out) * normal * (-1 / math.prod(normal.shape[axis] for axis in axes))


def _normalised(
    xp: Any, g: Any, weight: Any, normal: Any, inverse: Any, axes: tuple[int, ...], like: Any
) -> Any:
    return _normal(xp, g * _stretched(xp, weight, like), normal, inverse, axes)


def _stretched(xp: Any, x: Any, like: tuple[int, ...] | None) -> Any:
    """Return `x`, one value a channel, in a shape that broadcasts over the places beside channels."""
    return x if like is None or not hasattr(x, "shape") else xp.reshape(x, like)


def _per_channel(xp: Any, g: Any, like: tuple[int, ...] | None) -> Any:
    """Sum over all places beside channels; without `like`, broadcasting is undone by the engine."""
    if like is None:
        return g
    return xp.sum(g, axis=(0, *range(2, 1 + len(like))))


define(
    "normalize",
    derived={"normal": {"input": _normal}, "inverse": {"input": _inverse}},
    input=_normalised,
    weight=lambda xp, g, normal, like: _per_channel(xp, g * normal, like),
    bias=lambda xp, g, like: _per_channel(xp, g, like),
)
define(
    "scale_and_shift",
    derived={"normal": {"input": lambda xp, g, inverse: g * inverse}},
    input=lambda xp, g, weight, inverse, like: g * (_stretched(xp, weight, like) * inverse),
    weight=lambda xp, g, normal, like: _per_channel(xp, g * normal, like),
    bias=lambda xp, g, like: _per_channel(xp, g, like),
)
define(
    "rms_norm",
    derived={"normal": {"input": _normal_around_0}, "inverse": {"input": _inverse}},
    input=lambda xp, g, weight, normal, inverse, axes: _normal_around_0(
        xp, g * weight, normal, inverse, axes
    ),
    weight=lambda xp, g, normal: g * normal,
)

# Losses of classes: `slope`, the derivative of the mean by logits, is (softmax - one at the target) / batch.


def _slope(xp: Any, g: Any, out: Any, target: Any) -> Any:
    batch, classes = out.shape
    at_target = xp.expand_dims(target, axis=1) == xp.arange(classes)
    softmax = xp.where(at_target, out + 1 / batch, out)  # divided by batch
    return softmax * (g - batch * xp.sum(softmax * g, axis=1, keepdims=True))


define(
    "cross_entropy",
    derived={"slope": {"input": _slope}},
    input=lambda xp, g, slope: slope * g,
    target=None,
)
define(
    "nll_loss",
    input=lambda xp, g, key, counts, shape: xp.scatter_add(
        -g if counts is None else xp.keep_where(-g * counts, counts != 0), key, shape
    ),
)

# Losses of each element save what they compare, and `share`, what one value counts in the reduction. Their
# slopes are odd in input minus target: by the target it is the slope by the input, with the two exchanged.


def _absolute(xp: Any, g: Any, input: Any, target: Any, share: float) -> Any:
    return xp.sign(input - target) * (g * share)


def _huber(xp: Any, g: Any, input: Any, target: Any, share: float, delta: float) -> Any:
    return xp.minimum(xp.maximum(input - target, -delta), delta) * (g * share)


define(
    "mse_loss",
    input=lambda xp, g, input, target, share: (input - target) * (g * (2 * share)),
    target=lambda xp, g, input, target, share: (target - input) * (g * (2 * share)),
)
define(
    "l1_loss",
    input=_absolute,
    target=lambda xp, g, input, target, share: _absolute(xp, g, target, input, share),
)
define(
    "huber_loss",
    input=_huber,
    target=lambda xp, g, input, target, share, delta: _huber(xp, g, target, input, share, delta),
)
define(
    "smooth_l1_loss",
    input=lambda xp, g, input, target, share, beta: _huber(xp, g, input, target, share / beta, beta),
    target=lambda xp, g, input, target, share, beta: _huber(xp, g, target, input, share / beta, beta),
)

# Binary cross entropy: -log(chance of yes) * target - log(chance of no) * (1 - target)


def _weighed(g: Any, share: float, weight: Any) -> Any:
    g = g * share
    return g if weight is None else g * weight


def _logs(xp: Any, input: Any) -> tuple[Any, Any]:
    return xp.maximum(xp.log(input), -100), xp.maximum(xp.log1p(-input), -100)


def _by_chance(xp: Any, g: Any, input: Any, target: Any, weight: Any, share: float) -> Any:
    # The 1e-12 is PyTorch's: the slope at 0 and 1 stays finite.
    slope = (input - target) / xp.maximum((1 - input) * input, 1e-12)
    return slope * _weighed(g, share, weight)


def _by_target_of_chance(xp: Any, g: Any, input: Any, weight: Any, share: float) -> Any:
    yes, no = _logs(xp, input)
    return (no - yes) * _weighed(g, share, weight)


def _by_weight_of_chance(xp: Any, g: Any, input: Any, target: Any, share: float) -> Any:
    yes, no = _logs(xp, input)
    return (target * yes + (1 - target) * no) * (g * -share)


define("bce_loss", input=_by_chance, target=_by_target_of_chance, weight=_by_weight_of_chance)

# exp(x) is finite up to these, by the size of the dtype.
_LARGEST_EXPONENT = {2: 11.0, 4: 88.0, 8: 709.0}


def _by_logit(xp: Any, g: Any, input: Any, target: Any, weight: Any, pos_weight: Any, share: float) -> Any:
    if xp.is_recorded:
        yes, no = xp.sigmoid(input), xp.sigmoid(-input)
    else:
        odds = xp.exp(-xp.maximum(input, -_LARGEST_EXPONENT[input.dtype.itemsize]))
        yes = 1 / (1 + odds)
        no = odds * yes
    counts = target if pos_weight is None else target * pos_weight
    return ((1 - target) * yes - counts * no) * _weighed(g, share, weight)


def _by_target_of_logit(xp: Any, g: Any, input: Any, weight: Any, pos_weight: Any, share: float) -> Any:
    g = _weighed(g, share, weight)
    if pos_weight is None:
        return -input * g
    return (pos_weight * xp.logaddexp(0, -input) - xp.logaddexp(0, input)) * g


def _by_weight_of_logit(xp: Any, g: Any, input: Any, target: Any, pos_weight: Any, share: float) -> Any:
    counts = target if pos_weight is None else target * pos_weight
    return ((1 - target) * xp.logaddexp(0, input) + counts * xp.logaddexp(0, -input)) * (g * share)


define(
    "bce_with_logits_loss",
    input=_by_logit,
    target=_by_target_of_logit,
    weight=_by_weight_of_logit,
    pos_weight=lambda xp, g, input, target, weight, share: (
        target * xp.logaddexp(0, -input) * _weighed(g, share, weight)
    ),
)
