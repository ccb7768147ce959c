"""Average pooling, adaptive average pooling, and power-average pooling."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from nn.functional.axis_matrices import AxisMatrix, multiply_along
from nn.functional.max_pooling import max_pool1d, max_pool2d, max_pool3d
from nn.functional.windows import (
    OutputSizes,
    Pool,
    Sizes,
    Windows,
    adaptive_windows,
    count_of_windows,
    output_sizes,
    pool_of,
    pooled_array,
)
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown


def map_of(windows: Windows, shares: Array, size: int) -> AxisMatrix:
    """Return the matrix that sums window i and multiplies the sum by ``shares[i]``."""
    longest = int(windows.counts.max(initial=0))
    within = np.arange(longest) < windows.counts[:, None]
    places = windows.starts[:, None] + np.arange(longest)
    return AxisMatrix.of_rows(places, np.where(within, shares[:, None], 0.0), size)


@lru_cache(256)
def _map(
    name: str, size: int, pool: Pool, dim: int, count_include_pad: bool, divisor: int | None
) -> AxisMatrix:
    pad, kernel = pool.padding[dim], pool.kernel[dim]
    firsts = np.arange(count_of_windows(name, size, pool, dim)) * pool.stride[dim] - pad
    starts, ends = np.maximum(firsts, 0), np.minimum(firsts + kernel, size)
    if divisor is not None:
        shares = np.full(starts.shape, 1 / divisor)
    elif count_include_pad:
        shares = 1 / (np.minimum(firsts + kernel, size + pad) - firsts)
    else:
        shares = 1 / (ends - starts)
    return map_of(Windows(starts, ends - starts, 1), shares, size)


@lru_cache(256)
def adaptive_map(size: int, outs: int) -> AxisMatrix:
    """Return the matrix that averages `size` elements to `outs` means."""
    windows = adaptive_windows(size, outs)
    return map_of(windows, 1 / windows.counts, size)


def _avg_pool(
    name: str,
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    x = pooled_array(name, dims, input)
    pool = pool_of(name, dims, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None and (type(divisor_override) is not int or divisor_override == 0):
        raise InvalidArgumentError(
            f"{name}: divisor_override must be an integer other than 0, not {shown(divisor_override)}"
        )
    maps = []
    for dim in range(dims):
        # Divide along the first dimension only: the divisor is for the sum of the whole window.
        divisor = None if divisor_override is None else divisor_override if dim == 0 else 1
        axis = x.ndim - dims + dim
        maps.append((axis, _map(name, x.shape[axis], pool, dim, count_include_pad, divisor)))
    return multiply_along(input, maps)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of `input`, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, length)``, or without the batch.
    kernel_size
        The size of a window: one integer, or a list of one.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of zeros to add on both sides, at most half of ``kernel_size``.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    count_include_pad
        Include the zeros of the padding in the mean.

    Returns
    -------
    Shape ``(batch, channels, length)``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.avg_pool1d(tensor.tensor([[1.0, 3.0, 5.0, 7.0]]), 2).tolist()
    [[2.0, 6.0]]
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of `input`, over two dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of zeros to add on both sides, at most half of ``kernel_size``.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    count_include_pad
        Include the zeros of the padding in the mean.
    divisor_override
        Divide the sum of each window by this number, instead of by its size.

    Returns
    -------
    Shape ``(batch, channels, height, width)``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.avg_pool2d(tensor.ones((1, 3, 4, 6)), 2, divisor_override=1).shape
    (1, 3, 2, 3)
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of `input`, over three dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, depth, height, width)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of zeros to add on both sides, at most half of ``kernel_size``.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    count_include_pad
        Include the zeros of the padding in the mean.
    divisor_override
        Divide the sum of each window by this number, instead of by its size.

    Returns
    -------
    Shape ``(batch, channels, depth, height, width)``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.avg_pool3d(tensor.ones((1, 3, 4, 6, 8)), 2, divisor_override=1).shape
    (1, 3, 2, 3, 4)
    """
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _adaptive_avg_pool(name: str, dims: int, input: Tensor, output_size: OutputSizes) -> Tensor:
    x = pooled_array(name, dims, input)
    sizes = output_sizes(name, dims, output_size, x)
    first = x.ndim - dims
    maps = [(first + dim, adaptive_map(x.shape[first + dim], outs)) for dim, outs in enumerate(sizes)]
    return multiply_along(input, maps)


def adaptive_avg_pool1d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Return the mean of each of `output_size` windows, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, length)``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_avg_pool1d(tensor.ones((1, 3, 7)), 2).shape
    (1, 3, 2)
    """
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Return the mean of each of `output_size` windows, over two dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_avg_pool2d(tensor.ones((1, 3, 7, 5)), 2).shape
    (1, 3, 2, 2)
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Return the mean of each of `output_size` windows, over three dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, depth, height, width)``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_avg_pool3d(tensor.ones((1, 3, 7, 5, 4)), 2).shape
    (1, 3, 2, 2, 2)
    """
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def _lp_pool(
    name: str,
    dims: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> Tensor:
    if math.isinf(norm_type):
        largest = (max_pool1d, max_pool2d, max_pool3d)[dims - 1]
        sign = 1.0 if norm_type > 0 else -1.0
        return largest(input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
    if norm_type == 0:
        raise InvalidArgumentError(f"{name}: norm_type must not be 0, because 1 / norm_type is an exponent")
    pool = pool_of(name, dims, kernel_size, stride, 0, 1, ceil_mode)
    means = _avg_pool(
        f"avg_pool{dims}d", dims, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True, None
    )
    return (means.sign() * means.abs().relu() * math.prod(pool.kernel)).pow(1 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the norm of degree `norm_type` of each window of `input`, over one dimension.

    The norm is ``sum(x ** norm_type) ** (1 / norm_type)``: for infinity the largest magnitude, for minus
    infinity the smallest. The other arguments are those of ``avg_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.lp_pool1d(tensor.full((1, 1, 2), 3.0), 1, 2).item() / 2**1
    3.0
    """
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the norm of degree `norm_type` of each window of `input`, over two dimensions.

    The norm is ``sum(x ** norm_type) ** (1 / norm_type)``: for infinity the largest magnitude, for minus
    infinity the smallest. The other arguments are those of ``avg_pool2d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.lp_pool2d(tensor.full((1, 1, 2, 2), 3.0), 1, 2).item() / 2**2
    3.0
    """
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the norm of degree `norm_type` of each window of `input`, over three dimensions.

    The norm is ``sum(x ** norm_type) ** (1 / norm_type)``: for infinity the largest magnitude, for minus
    infinity the smallest. The other arguments are those of ``avg_pool3d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.lp_pool3d(tensor.full((1, 1, 2, 2, 2), 3.0), 1, 2).item() / 2**3
    3.0
    """
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)
