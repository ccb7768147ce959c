"""Derivatives of what moves, joins, selects and shares elements."""

from __future__ import annotations

from typing import Any

from tensor._derivatives._table import define


def spread(xp: Any, g: Any, key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return zeros of `shape` with `g` added at `key`: what reading at `key` is the transpose of."""
    whole = xp.zeros(shape, dtype=g.dtype)
    if any(part.dtype.kind != "b" for part in key if hasattr(part, "dtype")):
        # Integer arrays may name an element twice. The standard has no name for adding up there.
        xp.add.at(whole, key, g)
    else:
        whole[key] = g
    return whole


def _except(xp: Any, g: Any, key: tuple[Any, ...]) -> Any:
    rest = xp.asarray(g, copy=True)
    rest[key] = 0
    return rest


def _written(xp: Any, g: Any, key: tuple[Any, ...], value_shape: tuple[int, ...]) -> Any:
    part = xp.asarray(g[key])
    # NumPy lets a value have more dimensions than the selection, of size 1.
    return xp.reshape(part, (1,) * (len(value_shape) - part.ndim) + part.shape)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    places = {axis: i for i, axis in enumerate(axes)}
    return tuple(places[i] for i in range(len(axes)))


define("alias", x=lambda xp, g: g)
define("clone", x=lambda xp, g: g)
define("reshape", x=lambda xp, g, shape: xp.reshape(g, shape))
define("squeeze", x=lambda xp, g, shape: xp.reshape(g, shape))
define("expand_dims", x=lambda xp, g, shape: xp.reshape(g, shape))
define("permute_dims", x=lambda xp, g, axes: xp.permute_dims(g, _inverse(axes)))
define("getitem", x=lambda xp, g, key, shape: spread(xp, g, key, shape))
define("setitem", x=lambda xp, g, key: _except(xp, g, key), value=_written)
define("astype", x=lambda xp, g: g)
