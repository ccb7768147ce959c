"""Interpolation: resize images and signals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from nn.functional.average_pooling import adaptive_map
from nn.functional.axis_matrices import AxisMatrix, multiply_along
from nn.functional.checks import array_of, floating_array_of
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown

_DIMS_OF_MODE = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
_STEPWISE = ("nearest", "nearest-exact", "area")

# --- Matrices that resize one dimension, with PyTorch's formulas --------------------------------------------


def _nearest(size: int, outs: int, factor: float | None, exact: bool) -> AxisMatrix:
    # Compute in single precision, as PyTorch does: in double precision, some positions would have another
    # nearest element.
    scale = np.float32(1 / factor) if factor else np.float32(size) / np.float32(outs)
    at = np.arange(outs, dtype=np.float32)
    places = np.floor((at + np.float32(0.5)) * scale if exact else at * scale).astype(np.int64)
    return AxisMatrix.of_rows(np.minimum(places, size - 1)[:, None], np.ones((outs, 1)), size)


def _scale(size: int, outs: int, factor: float | None, align_corners: bool) -> float:
    if align_corners:
        return (size - 1) / (outs - 1) if outs > 1 else 0.0
    return 1 / factor if factor else size / outs


def _sources(size: int, outs: int, factor: float | None, align_corners: bool) -> Array:
    scale, at = _scale(size, outs, factor, align_corners), np.arange(outs)
    return at * scale if align_corners else (at + 0.5) * scale - 0.5


def _linear(size: int, outs: int, factor: float | None, align_corners: bool) -> AxisMatrix:
    sources = np.maximum(_sources(size, outs, factor, align_corners), 0)
    lower = np.minimum(np.floor(sources).astype(np.int64), size - 1)
    share = np.minimum(sources - lower, 1)
    places = np.stack([lower, np.minimum(lower + 1, size - 1)], axis=1)
    return AxisMatrix.of_rows(places, np.stack([1 - share, share], axis=1), size)


def _cubic_weights(distances: Array, a: float) -> Array:
    """Return the weights of cubic convolution (Keys, 1981) at `distances`."""
    x = np.abs(distances)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _cubic(size: int, outs: int, factor: float | None, align_corners: bool) -> AxisMatrix:
    sources = _sources(size, outs, factor, align_corners)
    lower = np.floor(sources)
    taps = lower[:, None] + np.arange(-1, 3)
    weights = _cubic_weights(sources[:, None] - taps, -0.75)
    # Indices beyond the edges are clamped to the edges.
    return AxisMatrix.of_rows(np.clip(taps, 0, size - 1).astype(np.int64), weights, size)


# Antialiasing filters: the radius of each, and the function of its weights.
_FILTERS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "bilinear": (1.0, lambda x: np.maximum(1 - np.abs(x), 0)),
    "bicubic": (2.0, lambda x: _cubic_weights(x, -0.5)),
    "lanczos": (3.0, lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)),
}


def _antialiased(mode: str, size: int, outs: int, factor: float | None, align_corners: bool) -> AxisMatrix:
    reach, weights_at = _FILTERS[mode]
    scale = _scale(size, outs, factor, align_corners)
    wide = max(scale, 1.0)
    support = reach * wide
    centres = scale * (np.arange(outs) + 0.5)
    starts = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    ends = np.minimum((centres + support + 0.5).astype(np.int64), size)
    places = starts[:, None] + np.arange(max(int((ends - starts).max(initial=0)), 1))
    weights = weights_at((places - centres[:, None] + 0.5) / wide)
    weights = np.where(places < ends[:, None], weights, 0.0)
    totals = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, totals, out=weights, where=totals != 0)
    return AxisMatrix.of_rows(np.minimum(places, size - 1), weights, size)


@lru_cache(256)
def _map(
    mode: str, size: int, outs: int, factor: float | None, align_corners: bool, antialias: bool
) -> AxisMatrix:
    # In these modes PyTorch ignores the scale factor of a dimension whose size stays the same.
    if outs == size and (antialias or mode in ("linear", "bilinear", "trilinear")):
        factor = None
    if mode == "area":
        return adaptive_map(size, outs)
    if mode in _STEPWISE:
        return _nearest(size, outs, factor, mode == "nearest-exact")
    if antialias:
        return _antialiased(mode, size, outs, factor, align_corners)
    if mode == "bicubic":
        return _cubic(size, outs, factor, align_corners)
    return _linear(size, outs, factor, align_corners)


# --- Public functions, and checks of their arguments --------------------------------------------------------


def _each(what: str, given: object, space: int, kinds: tuple[type, ...]) -> list[Any]:
    many = list(given) if isinstance(given, (tuple, list)) else [given] * space
    if len(many) != space:
        raise InvalidArgumentError(
            f"interpolate: {what} must be one number, or one for each dimension after batch and channels, of "
            f"which there are {space}, not {shown(given)}"
        )
    if not all(type(n) in kinds for n in many):
        names = "numbers" if float in kinds else "integers"
        raise TypeError(f"interpolate: {what} must hold {names}, not {shown(given)}")
    return many


def _check_mode(mode: str, x: Array, align_corners: bool | None, antialias: bool) -> None:
    if mode not in (*_STEPWISE, *_DIMS_OF_MODE, "lanczos"):
        raise InvalidArgumentError(
            f"interpolate: mode must be one of {(*_STEPWISE, *_DIMS_OF_MODE, 'lanczos')}, not {shown(mode)}"
        )
    if x.ndim not in (3, 4, 5):
        raise InvalidArgumentError(
            f"interpolate: input must have shape (batch, channels, *sizes), with 1 to 3 sizes, not {x.shape}"
        )
    wanted = _DIMS_OF_MODE.get(mode, x.ndim)
    if x.ndim != wanted:
        fitting = {3: "'linear'", 4: "'bilinear' or 'bicubic'", 5: "'trilinear'"}[x.ndim]
        raise NotImplementedError(
            f"interpolate: mode {mode!r} requires an input with {wanted} dimensions, but this one has "
            f"{x.ndim}: pass mode={fitting}"
        )
    if mode in _STEPWISE and align_corners is not None:
        raise InvalidArgumentError(
            f"interpolate: mode {mode!r} does not support align_corners: omit it, or pass another mode, such "
            "as 'bilinear'"
        )
    if antialias and not (mode in _FILTERS and x.ndim == 4):
        raise InvalidArgumentError(
            "interpolate: antialias=True requires mode 'bilinear', 'bicubic' or 'lanczos' and an input with "
            f"4 dimensions, not mode {mode!r} and {x.ndim} dimensions"
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise InvalidArgumentError(
            "interpolate: mode 'lanczos' requires antialias=True, and does not support align_corners"
        )


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return `input` resized to `size`, or by `scale_factor`.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *sizes)`` with one to three sizes: floating, or uint8 in nearest modes.
    size
        The sizes of the output: one integer, or one for each dimension.
    scale_factor
        The factor of each size, instead of `size`. The products are rounded down.
    mode
        ``"nearest"``, ``"nearest-exact"`` (the nearest mode of other libraries), ``"area"``; for one
        dimension ``"linear"``, for two ``"bilinear"``, ``"bicubic"`` and ``"lanczos"``, for three
        ``"trilinear"``.
    align_corners
        For the linear modes and the cubic mode: align the centres of the corner elements instead of their
        outer edges.
    recompute_scale_factor
        Compute positions with the ratio of the rounded sizes instead of `scale_factor`.
    antialias
        For ``"bilinear"``, ``"bicubic"`` and ``"lanczos"``: filter the input if the output is smaller.

    Raises
    ------
    ValueError
        If options can't be combined, or sizes are below 1.
    NotImplementedError
        If the mode is for another number of dimensions.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[[1.0, 3.0]]])
    >>> nn.functional.interpolate(x, scale_factor=2).tolist()
    [[[1.0, 1.0, 3.0, 3.0]]]
    >>> nn.functional.interpolate(x, 3, mode="linear", align_corners=True).tolist()
    [[[1.0, 2.0, 3.0]]]
    """
    if mode in ("nearest", "nearest-exact") and array_of("interpolate", "input", input).dtype == np.uint8:
        # Each element of the result is one of the input, which float32 holds exactly.
        found = interpolate(
            input.float(), size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )
        return found.to(np.uint8)
    x = floating_array_of("interpolate", "input", input)
    _check_mode(mode, x, align_corners, antialias)
    space = x.ndim - 2
    if (size is None) == (scale_factor is None):
        raise InvalidArgumentError("interpolate: pass either size or scale_factor")
    factors: list[float | None] = [None] * space
    if size is not None:
        if recompute_scale_factor:
            raise InvalidArgumentError(
                "interpolate: recompute_scale_factor requires scale_factor instead of size"
            )
        sizes = _each("size", size, space, (int,))
    else:
        given = _each("scale_factor", scale_factor, space, (float, int))
        sizes = [math.floor(n * by) for n, by in zip(x.shape[2:], given, strict=True)]
        if not recompute_scale_factor and mode != "area":
            factors = [float(by) for by in given]
    if min(sizes) < (mode != "area") or 0 in x.shape[1:]:
        raise InvalidArgumentError(
            f"interpolate: sizes of input and output must be at least 1, but the input has shape {x.shape}, "
            f"and the output would have sizes {tuple(sizes)}"
        )
    if mode == "nearest" and space == 2:  # PyTorch has shortcuts for equal and doubled sizes
        factors = [
            None if outs in (n, 2 * n) else by
            for n, outs, by in zip(x.shape[2:], sizes, factors, strict=True)
        ]
    maps = [
        (axis, _map(mode, x.shape[axis], outs, factor, bool(align_corners), antialias))
        for axis, (outs, factor) in enumerate(zip(sizes, factors, strict=True), start=2)
    ]
    return multiply_along(input, maps)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return ``interpolate(...)`` with the same arguments: PyTorch's older name.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.upsample(tensor.ones((1, 2, 3)), 5).shape
    (1, 2, 5)
    """
    return interpolate(input, size, scale_factor, mode, align_corners)
