"""Derivatives of discrete Fourier transforms: their adjoints, because the transforms are linear.

The matrix of a transform is symmetric. So its adjoint is the transform in the other direction, with the same
scale: the inverse transform with ``norm="backward"`` and ``"forward"`` exchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor.tape.rules.table import define

_DUAL = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _resized(xp: Any, g: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return `g` cut or padded with zeros to `shape`, because the transform has padded or cut its operand."""
    for axis in axes:
        wanted, found = shape[axis], g.shape[axis]
        if wanted < found:
            g = g[(*[slice(None)] * axis, slice(wanted))]
        elif wanted > found:
            missing = [*g.shape]
            missing[axis] = wanted - found
            g = xp.concat([g, xp.zeros(tuple(missing), dtype=g.dtype)], axis=axis)
    return g


def _fftn(xp: Any, g: Any, s: Any, axes: Any, norm: str, to_shape: Any) -> Any:
    return _resized(xp, xp.fft.ifftn(g, s=s, axes=axes, norm=_DUAL[norm]), to_shape, axes)


def _ifftn(xp: Any, g: Any, s: Any, axes: Any, norm: str, to_shape: Any) -> Any:
    return _resized(xp, xp.fft.fftn(g, s=s, axes=axes, norm=_DUAL[norm]), to_shape, axes)


def _rfftn(xp: Any, g: Any, s: Any, axes: Any, norm: str, to_shape: Any) -> Any:
    # The omitted frequencies count as zeros. The gradient is the real part.
    return _resized(xp, xp.real(xp.fft.ifftn(g, s=s, axes=axes, norm=_DUAL[norm])), to_shape, axes)


def _irfftn(xp: Any, g: Any, s: Any, axes: Any, norm: str, to_shape: Any) -> Any:
    found = xp.fft.rfftn(g, s=s, axes=axes, norm=_DUAL[norm])
    # Count each frequency twice, because its mirror image is omitted. The first and the middle have none.
    size = s[-1]
    weights = np.full(size // 2 + 1, 2, g.dtype)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    spread = [1] * found.ndim
    spread[axes[-1]] = len(weights)
    return _resized(xp, found * weights.reshape(spread), to_shape, axes)


define("fftn", x=_fftn)
define("ifftn", x=_ifftn)
define("rfftn", x=_rfftn)
define("irfftn", x=_irfftn)
