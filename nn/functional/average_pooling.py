"""Average pooling, adaptive average pooling, and power-average pooling."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from nn.functional.axis_matrices import AxisMatrix, multiply_along
from nn.functional.dimensions import Family, Template
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
    window_sections,
)
from nn.module.docstrings import complete, example, texts_of
from tensor import Tensor
from tensor.lowlevel import Array, InvalidArgumentError, shown


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


@Family
@window_sections
@example(
    "nn.functional.avg_pool{dims}d(tensor.ones((1, 3, {sizes[4,6,8]})), 2, divisor_override=1).shape",
    Template("(1, 3, {sizes[2,3,4]})"),
)
def _avg_pool(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    _dims: int = 2,
) -> Tensor:
    """Return the mean of each window of `input`, over {dimensions}.

    Parameters
    ----------
    padding
        The number of zeros to add on both sides, at most half of ``kernel_size``.
    count_include_pad
        Include the zeros of the padding in the mean.
    divisor_override
        Divide the sum of each window by this number, instead of by its size.

    Returns
    -------
    Shape ``(batch, channels, {space})``.
    """
    name = f"avg_pool{_dims}d"
    x = pooled_array(name, _dims, input)
    pool = pool_of(name, _dims, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None and (type(divisor_override) is not int or divisor_override == 0):
        raise InvalidArgumentError(
            f"{name}: divisor_override must be an integer other than 0, not {shown(divisor_override)}"
        )
    maps = []
    for dim in range(_dims):
        # Divide along the first dimension only: the divisor is for the sum of the whole window.
        divisor = None if divisor_override is None else divisor_override if dim == 0 else 1
        axis = x.ndim - _dims + dim
        maps.append((axis, _map(name, x.shape[axis], pool, dim, count_include_pad, divisor)))
    return multiply_along(input, maps)


_AVERAGE: Final = {dims: _avg_pool[dims] for dims in (1, 2, 3)}
avg_pool2d = _AVERAGE[2]
avg_pool3d = _AVERAGE[3]


@example("nn.functional.avg_pool1d(tensor.tensor([[1.0, 3.0, 5.0, 7.0]]), 2).tolist()", [[2.0, 6.0]])
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

    Returns
    -------
    Shape ``(batch, channels, length)``.
    """
    return _AVERAGE[1](input, kernel_size, stride, padding, ceil_mode, count_include_pad)


complete(avg_pool1d, texts_of(_AVERAGE[1]), "ValueError\n    If shapes or options do not fit.")


@Family
@window_sections
@example(
    "nn.functional.adaptive_avg_pool{dims}d(tensor.ones((1, 3, {sizes[7,5,4]})), 2).shape",
    Template("(1, 3, {sizes[2]})"),
)
def _adaptive_avg_pool(input: Tensor, output_size: OutputSizes, *, _dims: int = 1) -> Tensor:
    """Return the mean of each of `output_size` windows, over {dimensions}."""
    name = f"adaptive_avg_pool{_dims}d"
    x = pooled_array(name, _dims, input)
    sizes = output_sizes(name, _dims, output_size, x)
    first = x.ndim - _dims
    maps = [(first + dim, adaptive_map(x.shape[first + dim], outs)) for dim, outs in enumerate(sizes)]
    return multiply_along(input, maps)


adaptive_avg_pool1d: Final = _adaptive_avg_pool[1]
adaptive_avg_pool2d = _adaptive_avg_pool[2]
adaptive_avg_pool3d = _adaptive_avg_pool[3]


@Family
@example("nn.functional.lp_pool{dims}d(tensor.full((1, 1, {sizes[2]}), 3.0), 1, 2).item() / 2**{dims}", 3.0)
def _lp_pool(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
    *,
    _dims: int = 1,
) -> Tensor:
    """Return the norm of degree `norm_type` of each window of `input`, over {dimensions}.

    The norm is ``sum(x ** norm_type) ** (1 / norm_type)``: for infinity the largest magnitude, for minus
    infinity the smallest. The other arguments are those of ``avg_pool{dims}d``.
    """
    if math.isinf(norm_type):
        largest = (max_pool1d, max_pool2d, max_pool3d)[_dims - 1]
        sign = 1.0 if norm_type > 0 else -1.0
        return largest(input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
    name = f"lp_pool{_dims}d"
    if norm_type == 0:
        raise InvalidArgumentError(f"{name}: norm_type must not be 0, because 1 / norm_type is an exponent")
    pool = pool_of(name, _dims, kernel_size, stride, 0, 1, ceil_mode)
    means = _AVERAGE[_dims](input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (means.sign() * means.abs().relu() * math.prod(pool.kernel)).pow(1 / norm_type)


lp_pool1d: Final = _lp_pool[1]
lp_pool2d: Final = _lp_pool[2]
lp_pool3d: Final = _lp_pool[3]
