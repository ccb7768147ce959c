"""Pools that average: over windows, to sizes that are asked for, and of powers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nn.functional.axis_maps import AxisMap, map_along
from nn.functional.max_pooling import max_pool1d, max_pool2d, max_pool3d
from nn.functional.windows import (
    Pool,
    Sizes,
    Windows,
    adaptive_windows,
    count_of_windows,
    output_sizes,
    pool_of,
    pooled_array,
)
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from tensor import Tensor
    from tensor.lowlevel import Array


def map_of(windows: Windows, shares: Array, size: int) -> AxisMap:
    """Return the map that sums each window times its share."""
    longest = int(windows.counts.max(initial=0))
    within = np.arange(longest) < windows.counts[:, None]
    places = windows.starts[:, None] + np.arange(longest)
    return AxisMap.of_rows(places, np.where(within, shares[:, None], 0.0), size)


@lru_cache(256)
def _map(name: str, size: int, pool: Pool, dim: int, count_include_pad: bool, divisor: int | None) -> AxisMap:
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
def adaptive_map(size: int, outs: int) -> AxisMap:
    """Return the map that averages `size` elements to `outs`."""
    windows = adaptive_windows(size, outs)
    return map_of(windows, 1 / windows.counts, size)


def _average(
    space: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    name = f"avg_pool{space}d"
    x = pooled_array(name, space, input)
    pool = pool_of(name, space, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None and (type(divisor_override) is not int or divisor_override == 0):
        raise InvalidArgumentError(
            f"{name}: divisor_override is an integer other than 0, not {shown(divisor_override)}"
        )
    maps = []
    for dim in range(space):
        # A divisor is of the whole window: one dimension divides by it, and the others sum.
        divisor = None if divisor_override is None else divisor_override if dim == 0 else 1
        axis = x.ndim - space + dim
        maps.append((axis, _map(name, x.shape[axis], pool, dim, count_include_pad, divisor)))
    return map_along(input, maps)


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
        Shape ``(batch, channels, *sizes)``, or without the batch; one size for each dimension of space.
    kernel_size
        The size of a window: one integer, or one for each dimension of space, as below.
    stride
        How far windows lie apart; ``kernel_size`` for None.
    padding
        How many zeros are added on both sides, at most half of ``kernel_size``.
    ceil_mode
        Have a last window that reaches beyond the padding, where the windows do not fit evenly.
    count_include_pad
        Let the zeros of the padding count in the mean.

    Returns
    -------
    Shape ``(batch, channels, *outs)``.

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
    return _average(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of `input`, over two dimensions: see ``avg_pool1d``.

    With `divisor_override` it is the sum of each window, divided by that.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.avg_pool2d(tensor.ones((1, 3, 4, 6)), 2, divisor_override=1).shape
    (1, 3, 2, 3)
    """
    return _average(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of `input`, over three dimensions: see ``avg_pool2d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.avg_pool3d(tensor.ones((1, 3, 4, 6, 8)), (2, 3, 4)).shape
    (1, 3, 2, 2, 2)
    """
    return _average(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _adaptive(space: int, input: Tensor, output_size: Sizes | tuple[int | None, ...] | None) -> Tensor:
    name = f"adaptive_avg_pool{space}d"
    x = pooled_array(name, space, input)
    sizes = output_sizes(name, space, output_size, x)
    first = x.ndim - space
    maps = [(first + dim, adaptive_map(x.shape[first + dim], outs)) for dim, outs in enumerate(sizes)]
    return map_along(input, maps)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return the means of as many windows as `output_size` says, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *sizes)``, or without the batch; one size for each dimension of space.
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_avg_pool1d(tensor.tensor([[1.0, 3.0, 5.0]]), 2).tolist()
    [[2.0, 4.0]]
    """
    return _adaptive(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes | tuple[int | None, ...] | None) -> Tensor:
    """Return the means of as many windows as `output_size` says, over two dimensions.

    See ``adaptive_avg_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_avg_pool2d(tensor.ones((1, 3, 7, 5)), (2, None)).shape
    (1, 3, 2, 5)
    """
    return _adaptive(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Sizes | tuple[int | None, ...] | None) -> Tensor:
    """Return the means of as many windows as `output_size` says, over three dimensions.

    See ``adaptive_avg_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_avg_pool3d(tensor.ones((1, 3, 7, 5, 4)), 1).shape
    (1, 3, 1, 1, 1)
    """
    return _adaptive(3, input, output_size)


def _of_powers(
    space: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> Tensor:
    if math.isinf(norm_type):
        largest = (max_pool1d, max_pool2d, max_pool3d)[space - 1]
        sign = 1.0 if norm_type > 0 else -1.0
        return largest(input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
    pool = pool_of(f"lp_pool{space}d", space, kernel_size, stride, 0, 1, ceil_mode)
    means = _average(space, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    return (means.sign() * means.abs().relu() * math.prod(pool.kernel)).pow(1 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return for each window of `input` the root of degree `norm_type` of the sum of its powers.

    Over one dimension; see ``avg_pool1d`` for the rest. A `norm_type` of infinity gives the largest
    magnitude.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.lp_pool1d(tensor.tensor([[3.0, 4.0]]), 2, 2).tolist()
    [[5.0]]
    """
    return _of_powers(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the roots of sums of powers over windows of two dimensions: see ``lp_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.lp_pool2d(tensor.ones((1, 1, 2, 2)), 2, 2).tolist()
    [[[[2.0]]]]
    """
    return _of_powers(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the roots of sums of powers over windows of three dimensions: see ``lp_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.lp_pool3d(tensor.ones((1, 1, 2, 2, 2)), 3, 2).tolist()
    [[[[[2.0]]]]]
    """
    return _of_powers(3, input, norm_type, kernel_size, stride, ceil_mode)
