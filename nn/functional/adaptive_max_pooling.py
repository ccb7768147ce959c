"""Pools of the largest element whose outputs have a size that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from nn.functional.plane_places import largest
from nn.functional.windows import Sizes, adaptive_windows, output_sizes, pooled_array

if TYPE_CHECKING:
    from tensor import Tensor


def _adaptive(space: int, input: Tensor, output_size: object, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{space}d"
    x = pooled_array(name, space, input)
    sizes = output_sizes(name, space, output_size, x)
    windows = [adaptive_windows(size, outs) for size, outs in zip(x.shape[-space:], sizes, strict=True)]
    return largest(space, input, x, windows, return_indices)


@overload
def adaptive_max_pool1d(
    input: Tensor,
    output_size: Sizes,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def adaptive_max_pool1d(
    input: Tensor,
    output_size: Sizes,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool1d(
    input: Tensor,
    output_size: Sizes,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool1d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of as many windows as `output_size` says, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *sizes)``, or without the batch; one size for each dimension of space.
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.
    return_indices
        Return also where they lie, as ``max_pool1d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool1d(tensor.tensor([[1.0, 3.0, 2.0]]), 2).tolist()
    [[3.0, 3.0]]
    """
    return _adaptive(1, input, output_size, return_indices)  # type: ignore[no-any-return]


@overload
def adaptive_max_pool2d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def adaptive_max_pool2d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool2d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool2d(
    input: Tensor, output_size: Sizes | tuple[int | None, ...] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of as many windows as `output_size` says, over two dimensions.

    See ``adaptive_max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool2d(tensor.ones((1, 3, 7, 5)), (2, None)).shape
    (1, 3, 2, 5)
    """
    return _adaptive(2, input, output_size, return_indices)  # type: ignore[no-any-return]


@overload
def adaptive_max_pool3d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def adaptive_max_pool3d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool3d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool3d(
    input: Tensor, output_size: Sizes | tuple[int | None, ...] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of as many windows as `output_size` says, over three dimensions.

    See ``adaptive_max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool3d(tensor.ones((1, 3, 7, 5, 4)), 1).shape
    (1, 3, 1, 1, 1)
    """
    return _adaptive(3, input, output_size, return_indices)  # type: ignore[no-any-return]
