"""Max pooling and adaptive max pooling."""

from __future__ import annotations

from typing import Literal, overload

from nn.functional.plane_gather import largest
from nn.functional.windows import (
    OutputSizes,
    Sizes,
    adaptive_windows,
    output_sizes,
    pool_of,
    pooled_array,
    windows_of,
)
from tensor import Tensor


def _max_pool(
    name: str,
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    x = pooled_array(name, dims, input)
    pool = pool_of(name, dims, kernel_size, stride, padding, dilation, ceil_mode)
    windows = windows_of(name, x, pool)
    return largest(dims, input, x, windows, return_indices)  # type: ignore[no-any-return]


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, length)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool1d``.

    Returns
    -------
    Shape ``(batch, channels, length)``; with `return_indices` a tuple of two tensors of this
    shape.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool1d(tensor.ones((8, 3, 7)), 3, stride=2, padding=1).shape
    (8, 3, 4)
    """
    return _max_pool(
        "max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over two dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool2d``.

    Returns
    -------
    Shape ``(batch, channels, height, width)``; with `return_indices` a tuple of two tensors of this
    shape.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool2d(tensor.ones((8, 3, 7, 5)), 3, stride=2, padding=1).shape
    (8, 3, 4, 3)
    """
    return _max_pool(
        "max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over three dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, depth, height, width)``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool3d``.

    Returns
    -------
    Shape ``(batch, channels, depth, height, width)``; with `return_indices` a tuple of two tensors of this
    shape.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool3d(tensor.ones((8, 3, 7, 5, 6)), 3, stride=2, padding=1).shape
    (8, 3, 4, 3, 3)
    """
    return _max_pool(
        "max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def _adaptive_max_pool(
    name: str, dims: int, input: Tensor, output_size: OutputSizes, return_indices: bool
) -> Tensor | tuple[Tensor, Tensor]:
    x = pooled_array(name, dims, input)
    sizes = output_sizes(name, dims, output_size, x)
    windows = [adaptive_windows(size, outs) for size, outs in zip(x.shape[-dims:], sizes, strict=True)]
    return largest(dims, input, x, windows, return_indices)  # type: ignore[no-any-return]


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = ...
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = ...
) -> Tensor | tuple[Tensor, Tensor]: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each of `output_size` windows, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, length)``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each largest element, as ``max_pool1d`` does.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool1d(tensor.ones((1, 3, 7)), 2).shape
    (1, 3, 2)
    """
    return _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, return_indices)


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = ...
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = ...
) -> Tensor | tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each of `output_size` windows, over two dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each largest element, as ``max_pool2d`` does.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool2d(tensor.ones((1, 3, 7, 5)), 2).shape
    (1, 3, 2, 2)
    """
    return _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, return_indices)


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = ...
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = ...
) -> Tensor | tuple[Tensor, Tensor]: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each of `output_size` windows, over three dimensions.

    Parameters
    ----------
    input
        Shape ``(batch, channels, depth, height, width)``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each largest element, as ``max_pool3d`` does.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool3d(tensor.ones((1, 3, 7, 5, 4)), 2).shape
    (1, 3, 2, 2, 2)
    """
    return _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, return_indices)
