"""Derivatives of reductions."""

from __future__ import annotations

from typing import Any

from tensor._derivatives._table import define


def expand_reduced(xp: Any, g: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """Return the gradient of a reduction, broadcast to the `shape` that was reduced."""
    if not keepdims and axis is not None and len(shape) > 0:
        axes = (axis,) if isinstance(axis, int) else axis
        places = {a % len(shape) for a in axes}
        g = xp.reshape(g, tuple(1 if i in places else n for i, n in enumerate(shape)))
    return xp.broadcast_to(g, shape)


define("sum", x=lambda xp, g, shape, axis, keepdims: expand_reduced(xp, g, shape, axis, keepdims))
