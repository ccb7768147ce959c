"""Derivatives of the ops of `nn`: ``define`` adds them to `RULES`, the derivatives of all ops.

Some ops save a result of the forward pass, such as the bits of a mask, instead of their input. Their
derivatives take the saved result as an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensor.kernels import (
    affine_by_bias,
    affine_by_input,
    affine_by_weight,
    as_one_dtype,
    attention_backward,
    attention_kept,
    empty,
    normalize_channels_backward,
    normalize_rows_backward,
)
from tensor.tape.rules import RULES
from tensor.tape.rules.table import define

__all__ = ["RULES"]

# Linear maps and embeddings


def _rows(xp: Any, x: Any) -> Any:
    """Return `x` as a matrix: join all dimensions but the last. `x` may be empty."""
    return xp.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _embedding(
    xp: Any, g: Any, indices: Any, shape: tuple[int, int], padding_idx: int | None, scale_grad_by_freq: bool
) -> Any:
    rows, g = indices.reshape(-1), _rows(xp, g)
    if scale_grad_by_freq:
        g = g / np.bincount(rows, minlength=shape[0])[rows].astype(g.dtype)[:, None]
    if padding_idx is not None:
        kept = (rows != padding_idx).nonzero()[0]
        rows, g = rows[kept], g[kept]
    return xp.scatter_add(g, (rows,), shape)


_UNPACKED_AT_ONCE = 2**15


def _unpacked(bits: Any, shape: tuple[int, ...]) -> Any:
    """Return the mask of a dropout as a NumPy array in pooled memory. Derivatives treat it as a constant."""
    bits = np.asarray(bits)
    mask = empty(shape, np.bool_)
    flat = mask.reshape(-1)
    for start in range(0, flat.size, _UNPACKED_AT_ONCE):
        part = flat[start : start + _UNPACKED_AT_ONCE]
        part[...] = np.unpackbits(bits[start // 8 :], count=part.size)
    return mask


define("linear", input=affine_by_input, weight=affine_by_weight, bias=affine_by_bias)
define("embedding", weight=_embedding)
define("dropout", input=lambda xp, g, bits, scale: xp.keep_where(g * scale, _unpacked(bits, g.shape)))

# Packed sequences: each row of the packed tensor is one step of a sequence.


def _from_rows(xp: Any, g: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of `shape` with `g` at `rows` of the first two dimensions, joined. `rows` are unique."""
    flat = (shape[0] * shape[1], *shape[2:])
    if xp.is_recorded:
        return xp.reshape(xp.scatter_add(g, (rows,), flat), shape)
    whole = xp.zeros(flat, g.dtype)
    whole[rows] = g
    return whole.reshape(shape)


def _part(_xp: Any, g: Any, i: int, spans: tuple[tuple[int, int], ...], axis: int) -> Any:
    """Return sequence `i` of a padded batch whose steps are along `axis`."""
    along = slice(*spans[i])
    return g[i, along] if axis else g[along, i]


define("pack", each=lambda xp, g, i, places, ends: g[places[ends[i] : ends[i + 1]]])
define("pack_padded", input=_from_rows)
define("pad", each=_part)
define("pad_packed", input=lambda xp, g, rows: _steps_joined(xp, g)[rows])


def _steps_joined(xp: Any, x: Any) -> Any:
    return xp.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


# Attention: out = dropout(weights) @ value, with weights = softmax(scale * query @ key.T + mask). A kernel
# computes all gradients, block by block. Recorded gradients use whole matrices. Query heads that share one
# key head have their own dimension. The options are `is_causal`, `scale`, and the seed and the probability of
# dropout.


def attention_weights(xp: Any, query: Any, key: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """Return the attention weights: the softmax over keys, or 0 for a query that attends to no key."""
    scores = xp.matmul(query, xp.matrix_transpose(key)) * scale
    if is_causal:
        scores = xp.where(xp.asarray(np.tri(*scores.shape[-2:], dtype=np.bool_)), scores, -math.inf)
    if mask is not None:
        is_bool = mask.dtype == np.bool_
        scores = xp.where(mask, scores, -math.inf) if is_bool else scores + mask
    has_no_key = xp.max(scores, axis=-1, keepdims=True) == -math.inf
    return xp.where(has_no_key, 0.0, xp.softmax(xp.where(has_no_key, 0.0, scores), axis=-1))


def attention_factors(shape: tuple[int, ...], seed: int, p: float) -> Any:
    """Return the factors of dropout for weights of this `shape`: 0, or 1 / (1 - p)."""
    return attention_kept(shape, seed, p) * (1 / (1 - p) if p < 1 else 0.0)


class _Attention:
    """The matrices for a recorded derivative of attention, of shape ``(batch, key heads, group, ...)``."""

    def __init__(
        self, xp: Any, query: Any, key: Any, mask: Any, is_causal: bool, scale: float, seed: int, p: float
    ) -> None:
        self.xp, self.scale, self.heads = xp, scale, key.shape[1]
        self.query, self.key = self.by_group(query), self.by_group(key)
        if mask is not None:
            mask = np.broadcast_to(mask, (*query.shape[:3], key.shape[2]))
            mask = xp.asarray(mask.reshape((query.shape[0], self.heads, -1, *mask.shape[2:])))
            mask = mask if mask.dtype == np.bool_ else xp.astype(mask, query.dtype)
        self.weights = attention_weights(xp, self.query, self.key, mask, is_causal, scale)
        self.factors = None
        if p:
            factors = attention_factors((*query.shape[:3], key.shape[2]), seed, p)
            self.factors = xp.asarray(factors.reshape(self.weights.shape), dtype=query.dtype)

    def by_group(self, x: Any) -> Any:
        """Return `x` with an additional dimension of the query heads that share a key head: the group."""
        return self.xp.reshape(x, (x.shape[0], self.heads, x.shape[1] // self.heads, *x.shape[2:]))

    def dropped(self, x: Any) -> Any:
        """Return `x` with dropout applied."""
        return x if self.factors is None else x * self.factors

    def slopes(self, g: Any, value: Any) -> Any:
        """Return the gradient of ``query @ key.T``."""
        xp = self.xp
        g = self.dropped(xp.matmul(self.by_group(g), xp.matrix_transpose(self.by_group(value))))
        mean = xp.sum(g * self.weights, axis=-1, keepdims=True)
        return self.weights * (g - mean) * self.scale


def _attention_by_query(xp: Any, g: Any, query: Any, key: Any, value: Any, mask: Any, options: Any) -> Any:
    own = _Attention(xp, query, key, mask, *options)
    return xp.reshape(xp.matmul(own.slopes(g, value), own.key), query.shape)


def _attention_by_key(xp: Any, g: Any, query: Any, key: Any, value: Any, mask: Any, options: Any) -> Any:
    own = _Attention(xp, query, key, mask, *options)
    return xp.sum(xp.matmul(xp.matrix_transpose(own.slopes(g, value)), own.query), axis=2)


def _attention_by_value(xp: Any, g: Any, query: Any, key: Any, mask: Any, options: Any) -> Any:
    own = _Attention(xp, query, key, mask, *options)
    return xp.sum(xp.matmul(xp.matrix_transpose(own.dropped(own.weights)), own.by_group(g)), axis=2)


def _attention_together(
    g: Any, wanted: Any, query: Any, key: Any, value: Any, mask: Any, options: Any, out: Any, logsumexp: Any
) -> Any:
    dtype = logsumexp.dtype
    g, query, key, value, out = (x.astype(dtype, copy=False) for x in (g, query, key, value, out))
    is_causal, scale, seed, p = options
    return attention_backward(g, wanted, query, key, value, mask, is_causal, scale, seed, p, out, logsumexp)


define(
    "attention",
    together=_attention_together,
    query=_attention_by_query,
    key=_attention_by_key,
    value=_attention_by_value,
)

# Normalization: out = weight * normal + bias, with normal = (x - mean) * inverse, inverse = 1 / deviation.
# Kernels compute all gradients at once. Recorded gradients use the formulas.


def _inverse(xp: Any, centred: Any, axes: tuple[int, ...], eps: float) -> Any:
    return 1 / xp.sqrt(xp.mean(centred * centred, axis=axes, keepdims=True) + eps)


def _normal(xp: Any, x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """Return the normalized values, and 1 / deviation."""
    centred = x - xp.mean(x, axis=axes, keepdims=True)
    inverse = _inverse(xp, centred, axes, eps)
    return centred * inverse, inverse


def _by_input(xp: Any, g: Any, normal: Any, inverse: Any, axes: tuple[int, ...]) -> Any:
    projected = xp.mean(g * normal, axis=axes, keepdims=True)
    return inverse * (g - xp.mean(g, axis=axes, keepdims=True) - normal * projected)


def _reshaped(xp: Any, x: Any, like: tuple[int, ...]) -> Any:
    """Return `x`, one value for each channel, in the shape `like`, which broadcasts to the input."""
    return xp.reshape(x, like) if hasattr(x, "shape") else x


def _per_channel(xp: Any, g: Any, like: tuple[int, ...]) -> Any:
    """Sum over all dimensions except the channels."""
    return xp.sum(g, axis=(0, *range(2, 1 + len(like))))


def _array_or_none(x: Any) -> Any:
    """Return `x` if it is an array, and None for a number, which means that there is no weight."""
    return x if isinstance(x, np.ndarray) else None


def _together(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that casts the arrays to one dtype and computes all gradients with `backward`."""

    def compute(
        g: Any,
        wanted: Any,
        input: Any,
        weight: Any,
        means: Any,
        inverses: Any,
        axes: Any,
        may_overwrite: bool,
    ) -> Any:
        arrays = as_one_dtype(g, input, _array_or_none(weight), means, inverses)
        return backward(*arrays, axes, *(*wanted, False)[:3], may_overwrite)

    return compute


def _rows_backward(g: Any, x: Any, weight: Any, means: Any, inverses: Any, axes: Any, *rest: Any) -> Any:
    return normalize_rows_backward(g, x, len(axes), weight, means, inverses, *rest)


def _channels_backward(g: Any, x: Any, weight: Any, means: Any, inverses: Any, axes: Any, *rest: Any) -> Any:
    # If `axes` is None, the means and deviations are running statistics, which are constants.
    return normalize_channels_backward(g, x, weight, means, inverses, axes is not None, *rest)


def _root_mean_square(xp: Any, g: Any, input: Any, weight: Any, axes: Any, eps: float) -> Any:
    g, inverse = g * weight, _inverse(xp, input, axes, eps)
    normal = input * inverse
    return inverse * (g - normal * xp.mean(g * normal, axis=axes, keepdims=True))


define(
    "layer_norm",
    together=_together(_rows_backward),
    input=lambda xp, g, input, weight, axes, eps: _by_input(
        xp, g * weight, *_normal(xp, input, axes, eps), axes
    ),
    weight=lambda xp, g, input, axes, eps: g * _normal(xp, input, axes, eps)[0],
    bias=lambda xp, g: g,
)
define(
    "rms_norm",
    together=_together(_rows_backward),
    input=_root_mean_square,
    weight=lambda xp, g, input, axes, eps: g * input * _inverse(xp, input, axes, eps),
)
define(
    "batch_norm",
    together=_together(_channels_backward),
    input=lambda xp, g, input, weight, axes, eps, like: _by_input(
        xp, g * _reshaped(xp, weight, like), *_normal(xp, input, axes, eps), axes
    ),
    weight=lambda xp, g, input, axes, eps, like: _per_channel(xp, g * _normal(xp, input, axes, eps)[0], like),
    bias=lambda xp, g, like: _per_channel(xp, g, like),
)
define(
    "scale_and_shift",
    together=_together(_channels_backward),
    input=lambda xp, g, weight, inverses, like: g * (_reshaped(xp, weight, like) * inverses.reshape(like)),
    weight=lambda xp, g, input, means, inverses, like: _per_channel(
        xp, g * (input - means.reshape(like)) * inverses.reshape(like), like
    ),
    bias=lambda xp, g, like: _per_channel(xp, g, like),
)

# Classification losses: the derivative of the mean with respect to logits is (softmax - one_hot) / batch.


def _cross_entropy(xp: Any, g: Any, input: Any, target: Any, tops: Any, sums: Any) -> Any:
    if not xp.is_recorded:
        return xp.cross_entropy_backward(g, input, target, tops, sums)
    batch, classes = input.shape
    at_target = xp.expand_dims(target, axis=1) == xp.arange(classes)
    softmax = xp.softmax(input, axis=1)
    return xp.where(at_target, softmax - 1, softmax) * (g / batch)


define("cross_entropy", input=_cross_entropy, target=None)
define(
    "nll_loss",
    input=lambda xp, g, key, counts, shape: xp.scatter_add(
        -g if counts is None else xp.keep_where(-g * counts, counts != 0), key, shape
    ),
)

# Elementwise losses save their inputs, and `share`, the weight of one value in the reduction. Exchange input
# and target for the derivative by the target, because the derivative is an odd function of input - target.


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

# Binary cross entropy: -log(p) * target - log(1 - p) * (1 - target)


def _weighted(g: Any, share: float, weight: Any) -> Any:
    g = g * share
    return g if weight is None else g * weight


def _clamped_logs(xp: Any, input: Any) -> tuple[Any, Any]:
    return xp.maximum(xp.log(input), -100), xp.maximum(xp.log1p(-input), -100)


def _by_probability(xp: Any, g: Any, input: Any, target: Any, weight: Any, share: float) -> Any:
    # The 1e-12 is PyTorch's. It keeps the derivative at 0 and 1 finite.
    slope = (input - target) / xp.maximum((1 - input) * input, 1e-12)
    return slope * _weighted(g, share, weight)


def _by_target_of_probability(xp: Any, g: Any, input: Any, weight: Any, share: float) -> Any:
    yes, no = _clamped_logs(xp, input)
    return (no - yes) * _weighted(g, share, weight)


def _by_weight_of_probability(xp: Any, g: Any, input: Any, target: Any, share: float) -> Any:
    yes, no = _clamped_logs(xp, input)
    return (target * yes + (1 - target) * no) * (g * -share)


define(
    "binary_cross_entropy",
    input=_by_probability,
    target=_by_target_of_probability,
    weight=_by_weight_of_probability,
)

# The largest integer x for which exp(x) is finite in float16, float32 and float64, by itemsize.
_LARGEST_EXPONENT = {2: 11.0, 4: 88.0, 8: 709.0}


def _by_logit(xp: Any, g: Any, input: Any, target: Any, weight: Any, pos_weight: Any, share: float) -> Any:
    if xp.is_recorded:
        yes, no = xp.sigmoid(input), xp.sigmoid(-input)
    else:
        odds = xp.exp(-xp.maximum(input, -_LARGEST_EXPONENT[input.dtype.itemsize]))
        yes = 1 / (1 + odds)
        no = odds * yes
    counts = target if pos_weight is None else target * pos_weight
    return ((1 - target) * yes - counts * no) * _weighted(g, share, weight)


def _by_target_of_logit(xp: Any, g: Any, input: Any, weight: Any, pos_weight: Any, share: float) -> Any:
    g = _weighted(g, share, weight)
    if pos_weight is None:
        return -input * g
    return (pos_weight * xp.logaddexp(0, -input) - xp.logaddexp(0, input)) * g


def _by_weight_of_logit(xp: Any, g: Any, input: Any, target: Any, pos_weight: Any, share: float) -> Any:
    counts = target if pos_weight is None else target * pos_weight
    return ((1 - target) * xp.logaddexp(0, input) + counts * xp.logaddexp(0, -input)) * (g * share)


define(
    "binary_cross_entropy_with_logits",
    input=_by_logit,
    target=_by_target_of_logit,
    weight=_by_weight_of_logit,
    pos_weight=lambda xp, g, input, target, weight, share: (
        target * xp.logaddexp(0, -input) * _weighted(g, share, weight)
    ),
)
