"""Pools of the largest element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from nn.functional.plane_places import largest
from nn.functional.windows import Sizes, pool_of, pooled_array, windows_of

if TYPE_CHECKING:
    from tensor import Tensor


def _max_pool(
    space: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{space}d"
    x = pooled_array(name, space, input)
    pool = pool_of(name, space, kernel_size, stride, padding, dilation, ceil_mode)
    return largest(space, input, x, windows_of(name, x, pool), return_indices)


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
        Shape ``(batch, channels, *sizes)``, or without the batch; one size for each dimension of space.
    kernel_size
        The size of a window: one integer, or one for each dimension of space, as below.
    stride
        How far windows lie apart; ``kernel_size`` for None.
    padding
        By how much windows reach beyond the input on both sides, at most half of what they span.
    dilation
        How far the elements of a window lie apart.
    ceil_mode
        Have a last window that reaches beyond the padding, where the windows do not fit evenly.
    return_indices
        Return also where each largest element lies, int64, counted through the dimensions of space: what
        ``max_unpool1d`` takes.

    Returns
    -------
    Shape ``(batch, channels, *outs)``; with `return_indices` a tuple of two such.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool1d(tensor.tensor([[1.0, 3.0, 7.0, 5.0]]), 2).tolist()
    [[3.0, 7.0]]
    """
    return _max_pool(  # type: ignore[no-any-return]
        1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
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
    """Return the largest element of each window of `input`, over two dimensions: see ``max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool2d(tensor.ones((8, 3, 7, 5)), 3, stride=2, padding=1).shape
    (8, 3, 4, 3)
    """
    return _max_pool(  # type: ignore[no-any-return]
        2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
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
    """Return the largest element of each window of `input`, over three dimensions: see ``max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool3d(tensor.ones((8, 3, 4, 4, 4)), 2).shape
    (8, 3, 2, 2, 2)
    """
    return _max_pool(  # type: ignore[no-any-return]
        3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )
