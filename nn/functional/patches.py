"""Unfold an image into a matrix whose columns are patches, and fold such a matrix into an image."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from nn.functional.checks import floating_array_of
from nn.functional.convolutions import sizes_of
from nn.functional.windows import Sizes
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.kernels import Geometry, columns_of_patches, patches_of_columns
from tensor.ops.dispatch import apply
from tensor.tape.rules.table import define

# --- Two ops, each the derivative of the other --------------------------------------------------------------


def _widened(function: Callable[..., Array], x: Array, *rest: Any) -> Array:
    """Call `function` with `x` as float32 at least, and return its result in the dtype of `x`."""
    found = function(x.astype(np.result_type(x.dtype, np.float32), copy=False), *rest)
    return found.astype(x.dtype, copy=False)


def _unfolded(xp: Any, x: Any, geometry: Geometry) -> Any:
    if not xp.is_recorded:
        return _widened(columns_of_patches, x, geometry)
    return apply(_UNFOLD, lambda x: _widened(columns_of_patches, x, geometry), (x,), geometry=geometry)


def _folded(xp: Any, g: Any, geometry: Geometry, sizes: tuple[int, ...]) -> Any:
    if not xp.is_recorded:
        return _widened(patches_of_columns, g, geometry, sizes)
    return apply(_FOLD, lambda x: _widened(patches_of_columns, x, geometry, sizes), (g,), geometry=geometry)


_UNFOLD = define("unfold", input=lambda xp, g, geometry, to_shape: _folded(xp, g, geometry, to_shape[2:]))
_FOLD = define("fold", input=_unfolded)


def _geometry(name: str, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Geometry:
    pads = sizes_of(name, "padding", padding, 2, 0)
    return Geometry(
        sizes_of(name, "kernel_size", kernel_size, 2, 1),
        sizes_of(name, "stride", stride, 2, 1),
        tuple([(n, n) for n in pads]),
        sizes_of(name, "dilation", dilation, 2, 1),
        1,
    )


def _outputs(name: str, geometry: Geometry, sizes: tuple[int, ...]) -> tuple[int, ...]:
    outs = geometry.outputs(sizes)
    if min(outs) < 1:
        raise InvalidArgumentError(
            f"{name}: the kernel with its dilation spans {geometry.spans()} elements, but sizes {sizes} with "
            f"padding have only {geometry.padded(sizes)}"
        )
    return outs


# --- Public functions ---------------------------------------------------------------------------------------


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Return the patches of `input` as columns.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)`` or ``(channels, height, width)``, floating.
    kernel_size, dilation, padding, stride
        Define the patches, as for ``conv2d``: one integer, or one for height and one for width.

    Returns
    -------
    Shape ``(batch, channels * kernel height * kernel width, patches)``, or the same without the batch.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.unfold(tensor.ones((1, 3, 4, 5)), 2).shape
    (1, 12, 12)
    """
    x = floating_array_of("unfold", "input", input)
    geometry = _geometry("unfold", kernel_size, dilation, padding, stride)
    if x.ndim not in (3, 4):
        raise InvalidArgumentError(
            "unfold: input must have shape (batch, channels, height, width) or (channels, height, width), "
            f"not {x.shape}"
        )
    _outputs("unfold", geometry, x.shape[-2:])
    batch = input if x.ndim == 4 else input.unsqueeze(0)
    found = apply(_UNFOLD, lambda x: _widened(columns_of_patches, x, geometry), (batch,), geometry=geometry)
    return found if x.ndim == 4 else found.squeeze(0)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return the image that is the sum of its patches, given as the columns of `input`.

    Parameters
    ----------
    input
        Shape ``(batch, channels * kernel height * kernel width, patches)``, or the same without the batch.
    output_size
        Height and width of the output.
    kernel_size, dilation, padding, stride
        Define the patches of the output: see ``unfold``.

    Returns
    -------
    Shape ``(batch, channels, height, width)``, or the same without the batch.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.ones((1, 1, 3, 3))
    >>> nn.functional.fold(nn.functional.unfold(x, 2), 3, 2)[0, 0].tolist()
    [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    x = floating_array_of("fold", "input", input)
    sizes = sizes_of("fold", "output_size", output_size, 2, 1)
    geometry = _geometry("fold", kernel_size, dilation, padding, stride)
    patches, each = prod(_outputs("fold", geometry, sizes)), prod(geometry.kernel)
    if x.ndim not in (2, 3) or x.shape[-2] % each or x.shape[-1] != patches:
        raise InvalidArgumentError(
            f"fold: for output_size {sizes} and {each} elements in a kernel, input must have shape (batch, "
            f"channels * {each}, {patches}) or (channels * {each}, {patches}), not {x.shape}"
        )
    batch = input if x.ndim == 3 else input.unsqueeze(0)
    found = apply(
        _FOLD, lambda x: _widened(patches_of_columns, x, geometry, sizes), (batch,), geometry=geometry
    )
    return found if x.ndim == 3 else found.squeeze(0)
