"""Derivatives of what `nn` computes in one piece, entered into the table of all ops.

Constants of an op (a mask, normalised values, the slope of a loss) come as parameters: they are made by the
forward pass, and saved instead of its input.
"""

from __future__ import annotations

from typing import Any

from tensor.lowlevel import RULES, define

__all__ = ["RULES"]

# Linear maps and look-ups


def _rows(xp: Any, x: Any) -> Any:
    return x if x.ndim == 2 else xp.reshape(x, (-1, x.shape[-1]))


def _embedding(xp: Any, g: Any, indices: Any, shape: tuple[int, int], padding_idx: int | None) -> Any:
    rows, g = indices.reshape(-1), xp.reshape(g, (-1, shape[1]))
    if padding_idx is not None:
        kept = (rows != padding_idx).nonzero()[0]
        rows, g = rows[kept], g[kept]
    return xp.spread(g, (rows,), shape)


define(
    "linear",
    input=lambda xp, g, weight: xp.matmul(g, weight),
    weight=lambda xp, g, input: xp.matmul(xp.matrix_transpose(_rows(xp, g)), _rows(xp, input)),
    bias=lambda xp, g: g,
)
define("embedding", weight=_embedding)
define("dropout", input=lambda xp, g, mask, scale: g * mask * scale)

# Normalisation: out = weight * normal + bias, with normal = (x - mean) / deviation, inverse = 1 / deviation


def _normalised(
    xp: Any, g: Any, weight: Any, normal: Any, inverse: Any, axes: tuple[int, ...], like: Any
) -> Any:
    g = g * _stretched(xp, weight, like)
    projected = xp.mean(g * normal, axis=axes, keepdims=True)
    return inverse * (g - xp.mean(g, axis=axes, keepdims=True) - normal * projected)


def _scaled_to_one(xp: Any, g: Any, weight: Any, normal: Any, inverse: Any, axes: tuple[int, ...]) -> Any:
    g = g * weight
    return inverse * (g - normal * xp.mean(g * normal, axis=axes, keepdims=True))


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
    input=_normalised,
    weight=lambda xp, g, normal, like: _per_channel(xp, g * normal, like),
    bias=lambda xp, g, like: _per_channel(xp, g, like),
)
define(
    "scale_and_shift",
    input=lambda xp, g, weight, inverse, like: g * (_stretched(xp, weight, like) * inverse),
    weight=lambda xp, g, normal, like: _per_channel(xp, g * normal, like),
    bias=lambda xp, g, like: _per_channel(xp, g, like),
)
define("rms_norm", input=_scaled_to_one, weight=lambda xp, g, normal: g * normal)

# Losses. `slope` is the derivative of each value by its input, all factors of the reduction in it; `axis` is
# where classes were reduced, None when the loss is one number.


def _back(xp: Any, g: Any, slope: Any, axis: int | None) -> Any:
    return slope * (g if axis is None else xp.expand_dims(g, axis=axis))


for _name in ("cross_entropy", "nll_loss"):
    define(
        _name,
        input=_back,
        target=lambda xp, g, target_slope, axis: _back(xp, g, target_slope, axis),
    )
for _name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"):
    define(_name, input=lambda xp, g, slope: g * slope, target=lambda xp, g, slope: -(g * slope))
for _name in ("bce_loss", "bce_with_logits_loss"):
    define(
        _name,
        input=lambda xp, g, slope: g * slope,
        target=lambda xp, g, target_slope: g * target_slope,
    )
