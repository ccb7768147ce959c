"""Sampling of images at the coordinates of a grid, and grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

import tensor as tn
from nn.functional.checks import floating_array_of
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import widening, wrap

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
# The parameter of the cubic kernel of Keys (1981), with PyTorch's value.
_A = -0.75


@widening
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid with which ``grid_sample`` applies the affine maps `theta` to images.

    Parameters
    ----------
    theta
        Shape ``(batch, 2, 3)`` for images, ``(batch, 3, 4)`` for volumes.
    size
        The shape of the output images: ``(batch, channels, height, width)``, or with a depth before the
        height.
    align_corners
        Whether -1 and 1 are the centres of the corner elements instead of their outer edges.

    Returns
    -------
    Shape ``(batch, height, width, 2)`` or ``(batch, depth, height, width, 3)``: x, y and z, with the
    edges of the image at -1 and 1.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> theta = tensor.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])
    >>> nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-0.5, 0.0], [1.5, 0.0]]]]
    """
    x = floating_array_of("affine_grid", "theta", theta)
    batch, space = (size[0], len(size) - 2) if len(size) in (4, 5) else (0, 0)
    if space == 0 or min(size) < 1 or x.shape != (batch, space, space + 1):
        raise InvalidArgumentError(
            "affine_grid: theta must have shape (batch, 2, 3) for size=(batch, channels, height, width), or "
            "(batch, 3, 4) for size=(batch, channels, depth, height, width), with sizes of at least 1, not "
            f"{x.shape} for size={shown(tuple(size))}"
        )
    axes: list[Array] = []
    for count in size[2:]:
        along = np.linspace(-1, 1, count, dtype=x.dtype) if count > 1 else np.zeros(1, x.dtype)
        axes.append(along if align_corners else along * x.dtype.type((count - 1) / count))
    ones = np.ones(tuple(size[2:]), x.dtype)
    base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], ones], axis=-1)
    grid = wrap(base.reshape(1, -1, space + 1)).expand(batch, -1, -1).bmm(theta.transpose(1, 2))
    return grid.reshape(batch, *size[2:], space)


@widening
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return `input` sampled at the coordinates of `grid`. It is differentiable with respect to both.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or with a depth before the height.
    grid
        Shape ``(batch, *outs, 2)``, or 3 for volumes, in the dtype of `input`: x (along the width), y and z.
        The edges of the image are at -1 and 1.
    mode
        The interpolation: ``"bilinear"`` (also for volumes), ``"nearest"``, or ``"bicubic"`` for images.
    padding_mode
        The values outside the image: ``"zeros"``, ``"border"`` for the nearest edge, or ``"reflection"``.
    align_corners
        Whether -1 and 1 are the centres of the corner elements instead of their outer edges.

    Returns
    -------
    Shape ``(batch, channels, *outs)``.

    Raises
    ------
    ValueError
        If shapes, dtypes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> image = tensor.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> places = tensor.tensor([[[[0.0, 0.0], [1.0, -1.0]]]])
    >>> nn.functional.grid_sample(image, places, align_corners=True).tolist()
    [[[[1.5, 1.0]]]]
    """
    x, places = (
        floating_array_of("grid_sample", "input", input),
        floating_array_of("grid_sample", "grid", grid),
    )
    _check(x, places, mode, padding_mode)
    space, batch, channels = x.ndim - 2, x.shape[0], x.shape[1]
    ins, outs = x.shape[2:], places.shape[1:-1]
    count, aligned = prod(outs), bool(align_corners)
    flat = input.reshape(batch, channels, prod(ins))
    # For each dimension the weights and indices of the elements to sum.
    taps = []
    for dim, size in enumerate(ins):
        at = grid[..., space - 1 - dim].reshape(batch, 1, count)
        at = (at + 1) * ((size - 1) / 2) if aligned else ((at + 1) * size - 1) / 2
        taps.append(_taps(at, size, mode, padding_mode, aligned))
    total: Tensor | None = None
    for chosen in product(*taps):
        weight: Tensor | None = None
        index: Array = np.zeros((batch, 1, count), np.int64)
        inside: Array = np.ones((batch, 1, count), np.bool_)
        for (share, place), size in zip(chosen, ins, strict=True):
            weight = share if weight is None else weight if share is None else weight * share
            is_in = (place >= 0) & (place <= size - 1)
            inside &= is_in
            index = index * size + np.where(is_in, place, 0).astype(np.int64)
        value = flat.gather(2, wrap(index).expand(batch, channels, count))
        if not inside.all():
            value = value * wrap(inside.astype(x.dtype))
        value = value if weight is None else value * weight
        total = value if total is None else total + value
    assert total is not None
    return total.reshape(batch, channels, *outs)


def _check(x: Array, grid: Array, mode: str, padding_mode: str) -> None:
    if mode not in MODES:
        raise InvalidArgumentError(f"grid_sample: mode must be one of {MODES}, not {shown(mode)}")
    if mode == "bicubic" and x.ndim == 5:
        raise InvalidArgumentError(
            f"grid_sample: mode 'bicubic' requires an input with 4 dimensions, not shape {x.shape}"
        )
    if padding_mode not in PADDINGS:
        raise InvalidArgumentError(
            f"grid_sample: padding_mode must be one of {PADDINGS}, not {shown(padding_mode)}"
        )
    fits = x.ndim in (4, 5) and grid.ndim == x.ndim and grid.shape[-1] == x.ndim - 2
    if not fits or grid.shape[0] != x.shape[0] or 0 in x.shape[2:]:
        raise InvalidArgumentError(
            "grid_sample: the shapes of input and grid must be (batch, channels, height, width) and (batch, "
            "height, width, 2), or (batch, channels, depth, height, width) and (batch, depth, height, width, "
            f"3), with the same batch and no empty image, not {x.shape} and {grid.shape}"
        )
    if x.dtype != grid.dtype:
        raise InvalidArgumentError(
            f"grid_sample: input and grid must have the same dtype, not {x.dtype} and {grid.dtype}: write "
            "grid.to(input.dtype)"
        )


def _taps(
    at: Tensor, size: int, mode: str, padding_mode: str, aligned: bool
) -> list[tuple[Tensor | None, Array]]:
    """Return the weights and indices of the elements to read along one dimension; None is a weight of 1."""
    if mode != "bicubic":
        at = _kept_inside(at, size, padding_mode, aligned)
    if mode == "nearest":
        return [(None, np.rint(at.detach().numpy()))]
    lower = at.detach().floor()
    share, first = at - lower, lower.numpy()
    if mode == "bilinear":
        return [(1 - share, first), (share, first + 1)]
    return [
        (_cubic(share, step), _kept_inside(wrap(first + step), size, padding_mode, aligned).numpy())
        for step in range(-1, 3)
    ]


def _cubic(share: Tensor, step: int) -> Tensor:
    """Return the weight of the element at ``floor(x) + step``, where ``x - floor(x)`` is `share`."""
    x = share - step if step < 1 else step - share
    if step in (0, 1):
        return ((_A + 2) * x - (_A + 3)) * x * x + 1
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _kept_inside(at: Tensor, size: int, padding_mode: str, aligned: bool) -> Tensor:
    """Reflect or clamp coordinates beyond the edges of the image. Return them unchanged for "zeros"."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, span = (0.0, float(size - 1)) if aligned else (-0.5, float(size))
        if span == 0:
            at = at * 0
        else:
            at = at - low
            at = tn.where(at.detach() < 0, -at, at)
            turns = (at.detach() / span).floor()
            rest = at - turns * span
            at = tn.where(turns % 2 == 0, rest + low, (span + low) - rest)
    seen = at.detach()
    # Coordinates at an edge, or clamped to it, have a gradient of 0.
    return tn.where((seen > 0) & (seen < size - 1), at, seen.clamp(0, size - 1))
