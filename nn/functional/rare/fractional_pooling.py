"""Fractional max pooling, with random windows (B. Graham, Fractional Max-Pooling, 2014)."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Literal, overload

import numpy as np

from nn.functional.checks import array_of
from nn.functional.convolutions import sizes_of
from nn.functional.plane_gather import recorded_largest
from nn.functional.windows import Sizes, pooled_array
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.creation.generators import default_generator, numbers_of
from tensor.kernels.running import run_kernel

Ratios = float | tuple[float, ...] | list[float]


def _starts(draws: Array, size: int, outs: int, kernel: int) -> Array:
    """Return the start of each window, shape ``(planes, outs)``, from one random number for each plane."""
    starts = np.full((len(draws), outs), size - kernel, np.int64)
    if outs > 1:
        step = draws.dtype.type((size - kernel) / (outs - 1))
        draws = draws[:, None]
        at = (np.arange(outs - 1, dtype=draws.dtype) + draws) * step
        starts[:, :-1] = at.astype(np.int64) - (draws * step).astype(np.int64)
    return starts


def _found(x: Array, draws: Array, kernel: tuple[int, ...], outs: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the largest element of each window, and its index in the flattened plane."""
    dims = len(kernel)
    ins = x.shape[-dims:]
    planes = prod(x.shape[:-dims])
    places: Array = np.zeros((planes, 1, 1), np.int64)
    count = reached = 1
    for at, size, out, reach in zip(draws.T, ins, outs, kernel, strict=True):
        taps = _starts(at, size, out, reach)[:, :, None] + np.arange(reach)
        places = places[:, :, None, :, None] * size + taps[:, None, :, None, :]
        count, reached = count * out, reached * reach
        places = places.reshape(planes, count, reached)
    flat = places.reshape(planes, count * reached)
    values = np.take_along_axis(x.reshape(planes, prod(ins)), flat, 1).reshape(places.shape)
    which = values.argmax(axis=2)[:, :, None]
    shape = (*x.shape[:-dims], *outs)
    return (
        np.take_along_axis(values, which, 2).reshape(shape),
        np.take_along_axis(places, which, 2).reshape(shape),
    )


def _output_sizes(
    name: str, dims: int, ins: tuple[int, ...], output_size: object, output_ratio: object
) -> tuple[int, ...]:
    if (output_size is None) == (output_ratio is None):
        raise InvalidArgumentError(f"{name}: pass either output_size or output_ratio")
    if output_size is not None:
        return sizes_of(name, "output_size", output_size, dims, 1)
    ratios: list[Any] = (
        list(output_ratio) if isinstance(output_ratio, (tuple, list)) else [output_ratio] * dims
    )
    if len(ratios) != dims or not all(isinstance(ratio, float) and 0 < ratio < 1 for ratio in ratios):
        raise InvalidArgumentError(
            f"{name}: output_ratio must be a float between 0 and 1, or {dims} of them, not "
            f"{shown(output_ratio)}"
        )
    return tuple([int(size * ratio) for size, ratio in zip(ins, ratios, strict=True)])


def _fractional_max_pool(
    name: str,
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Ratios | None,
    return_indices: bool,
    _random_samples: Tensor | None,
) -> Tensor | tuple[Tensor, Tensor]:
    x = pooled_array(name, dims, input)
    kernel = sizes_of(name, "kernel_size", kernel_size, dims, 1)
    outs = _output_sizes(name, dims, x.shape[-dims:], output_size, output_ratio)
    for size, out, reach in zip(x.shape[-dims:], outs, kernel, strict=True):
        if out < 1 or out + reach - 1 > size:
            raise InvalidArgumentError(
                f"{name}: an input dimension of size {size} has {max(size - reach + 1, 0)} windows of size "
                f"{reach}, so the output size must be from 1 to that number, not {out}"
            )
    planes = x.shape[: x.ndim - dims]
    wanted = (*((1,) * (2 - len(planes))), *planes, dims)
    if _random_samples is None:
        draws = numbers_of(default_generator).random(wanted).astype(x.dtype)
    else:
        draws = array_of(name, "_random_samples", _random_samples)
        if draws.shape != wanted or draws.dtype != x.dtype:
            raise InvalidArgumentError(
                f"{name}: _random_samples must have shape {wanted} and the input's dtype, {x.dtype}, not "
                f"{draws.shape} and {draws.dtype}"
            )
    flat = draws.reshape(-1, dims)
    # In two dimensions, the first number is for the width, as in PyTorch.
    flat = flat[:, ::-1] if dims == 2 else flat
    found, places = run_kernel(partial(_found, draws=flat, kernel=kernel, outs=outs), x)
    return recorded_largest(  # type: ignore[no-any-return]
        dims, input, found, places, return_indices
    )


@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = ...,
    output_ratio: Ratios | None = ...,
    return_indices: Literal[False] = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = ...,
    output_ratio: Ratios | None = ...,
    *,
    return_indices: Literal[True],
    _random_samples: Tensor | None = ...,
) -> tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = ...,
    output_ratio: Ratios | None = ...,
    return_indices: bool = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over two dimensions, with random windows.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension.
    output_size, output_ratio
        Exactly one of them: the sizes of the result, or their ratio to the input's sizes, between 0 and 1.
    return_indices
        Also return the index of each largest element, as ``max_pool2d`` does.
    _random_samples
        Random numbers from 0 to 1, of shape ``(batch, channels, 2)``; from the default generator for
        None.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.fractional_max_pool2d(tensor.ones((3, 9, 7)), 2, output_ratio=0.7).shape
    (3, 6, 4)
    """
    return _fractional_max_pool(
        "fractional_max_pool2d",
        2,
        input,
        kernel_size,
        output_size,
        output_ratio,
        return_indices,
        _random_samples,
    )


@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = ...,
    output_ratio: Ratios | None = ...,
    return_indices: Literal[False] = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = ...,
    output_ratio: Ratios | None = ...,
    *,
    return_indices: Literal[True],
    _random_samples: Tensor | None = ...,
) -> tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = ...,
    output_ratio: Ratios | None = ...,
    return_indices: bool = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over three dimensions, with random windows.

    Parameters
    ----------
    input
        Shape ``(batch, channels, depth, height, width)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension.
    output_size, output_ratio
        Exactly one of them: the sizes of the result, or their ratio to the input's sizes, between 0 and 1.
    return_indices
        Also return the index of each largest element, as ``max_pool3d`` does.
    _random_samples
        Random numbers from 0 to 1, of shape ``(batch, channels, 3)``; from the default generator for
        None.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.fractional_max_pool3d(tensor.ones((3, 9, 7, 5)), 2, output_ratio=0.7).shape
    (3, 6, 4, 3)
    """
    return _fractional_max_pool(
        "fractional_max_pool3d",
        3,
        input,
        kernel_size,
        output_size,
        output_ratio,
        return_indices,
        _random_samples,
    )
