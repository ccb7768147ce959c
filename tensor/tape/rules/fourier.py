"""Derivatives of discrete Fourier transforms, which are linear: of each its adjoint.

By the definition: the matrix of the transform is symmetric, so its adjoint is the other direction without its
scale, times the transform's own. So ``norm="backward"`` and ``"forward"`` change places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor.tape.rules.table import define

_DUAL = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _resized(xp: Any, g: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Cut `g` off or fill it up with zeros to `shape`: what a transform did to its operand, backward."""
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
    # Frequencies that are left out count as zeros; of the result the real part is taken.
    return _resized(xp, xp.real(xp.fft.ifftn(g, s=s, axes=axes, norm=_DUAL[norm])), to_shape, axes)


def _irfftn(xp: Any, g: Any, s: Any, axes: Any, norm: str, to_shape: Any) -> Any:
    found = xp.fft.rfftn(g, s=s, axes=axes, norm=_DUAL[norm])
    # Frequencies other than 0 and the middle one stand for their mirror images too.
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
