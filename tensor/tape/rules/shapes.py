"""Derivatives of functions that move, join, select and share elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensor.tape.rules.table import define


def _with_zeros_at(xp: Any, g: Any, key: tuple[Any, ...]) -> Any:
    rest = xp.asarray(g, copy=True)
    rest[key] = 0
    return rest


def _gradient_of_value(xp: Any, g: Any, key: tuple[Any, ...], value_shape: tuple[int, ...]) -> Any:
    part = xp.asarray(g[key])
    # In NumPy, a value may have more dimensions than the selection if they have size 1.
    return xp.reshape(part, (1,) * (len(value_shape) - part.ndim) + part.shape)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    places = {axis: i for i, axis in enumerate(axes)}
    return tuple(places[i] for i in range(len(axes)))


def _negative(shift: int | tuple[int, ...]) -> int | tuple[int, ...]:
    return -shift if isinstance(shift, int) else tuple(-n for n in shift)


def _sum_of_tiles(xp: Any, g: Any, sizes: tuple[int, ...], times: tuple[int, ...]) -> Any:
    pairs = [n for pair in zip(times, sizes, strict=True) for n in pair]
    return xp.sum(xp.reshape(g, tuple(pairs)), axis=tuple(range(0, len(pairs), 2)))


def _add_at(xp: Any, g: Any, indices: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of `shape`, with `g` added at `indices` of the flattened array."""
    return xp.reshape(xp.scatter_add(g, (indices,), (math.prod(shape),)), shape)


def _on_diagonal(xp: Any, g: Any, shape: tuple[int, ...], offset: int, dims: tuple[int, int]) -> Any:
    """Return zeros of `shape` with `g` on the diagonal of `dims`."""
    others = tuple(i for i in range(len(shape)) if i not in dims)
    axes = (*others, *dims)
    start = (0, offset) if offset >= 0 else (-offset, 0)
    along = np.arange(g.shape[-1])
    key = (..., along + start[0], along + start[1])
    moved = xp.scatter_add(g, key, tuple(shape[i] for i in axes))
    return xp.permute_dims(moved, _inverse(axes))


define("alias", x=lambda xp, g: g)
define("clone", x=lambda xp, g: g)
define("reshape", x=lambda xp, g, to_shape: xp.reshape(g, to_shape))
define("squeeze", x=lambda xp, g, to_shape: xp.reshape(g, to_shape))
define("expand_dims", x=lambda xp, g, to_shape: xp.reshape(g, to_shape))
define("permute_dims", x=lambda xp, g, axes: xp.permute_dims(g, _inverse(axes)))
define("getitem", x=lambda xp, g, key, to_shape: xp.scatter_add(g, key, to_shape))
define("scatter_add", x=lambda xp, g, key: g[key])
define("setitem", x=lambda xp, g, key: _with_zeros_at(xp, g, key), value=_gradient_of_value)
define("astype", x=lambda xp, g: g)
define("broadcast_to", x=lambda xp, g: g)
define(
    "take", x=lambda xp, g, indices, axis, shape: xp.scatter_add(g, (*[slice(None)] * axis, indices), shape)
)
define("tile", x=lambda xp, g, sizes, times: _sum_of_tiles(xp, g, sizes, times))
define("concat", each=lambda xp, g, i, axis, ends: g[(*[slice(None)] * axis, slice(ends[i], ends[i + 1]))])
define("stack", each=lambda xp, g, i, axis: g[(*[slice(None)] * axis, i)])
define("flip", x=lambda xp, g, axis: xp.flip(g, axis=axis))
define("roll", x=lambda xp, g, shift, axis: xp.roll(g, _negative(shift), axis=axis))
define("tril", x=lambda xp, g, k: xp.tril(g, k=k))
define("triu", x=lambda xp, g, k: xp.triu(g, k=k))
define("diagonal", x=lambda xp, g, shape, offset, dims: _on_diagonal(xp, g, shape, offset, dims))
define("real", x=lambda xp, g: g)
define("imag", x=lambda xp, g: 1j * g)
define("as_strided", x=lambda xp, g, places, shape: _add_at(xp, g, places, shape))
define("view_as_real", x=lambda xp, g: g[..., 0] + 1j * g[..., 1])
define("view_as_complex", x=lambda xp, g: xp.stack([xp.real(g), xp.imag(g)], axis=-1))
define("add_at", x=lambda xp, g: g, source=lambda xp, g, key: g[key])
define("argsort", x=None)
define("nonzero", x=None)
define("searchsorted", x1=None, x2=None)
define("unique_all", x=None)
