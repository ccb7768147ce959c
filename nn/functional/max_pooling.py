"""Max pooling and adaptive max pooling."""

from __future__ import annotations

from typing import Final, Literal, Protocol, cast, overload

from nn.functional.dimensions import Family, Template
from nn.functional.plane_gather import largest
from nn.functional.windows import (
    OutputSizes,
    Sizes,
    adaptive_windows,
    output_sizes,
    pool_of,
    pooled_array,
    window_sections,
    windows_of,
)
from nn.module.docstrings import example
from tensor import Tensor


class MaxPool(Protocol):
    """The type of ``max_pool1d`` and the like, which return two tensors with `return_indices`."""

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = ...,
        padding: Sizes = ...,
        dilation: Sizes = ...,
        ceil_mode: bool = ...,
        return_indices: Literal[False] = ...,
    ) -> Tensor: ...
    @overload
    def __call__(
        self,
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
    def __call__(
        self,
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = ...,
        padding: Sizes = ...,
        dilation: Sizes = ...,
        ceil_mode: bool = ...,
        return_indices: bool = ...,
    ) -> Tensor | tuple[Tensor, Tensor]: ...


@Family
@window_sections
@example(
    "nn.functional.max_pool{dims}d(tensor.ones((8, 3, {sizes[7,5,6]})), 3, stride=2, padding=1).shape",
    Template("(8, 3, {sizes[4,3,3]})"),
)
def _max_pool(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    _dims: int = 1,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over {dimensions}.

    Parameters
    ----------
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool{dims}d``.

    Returns
    -------
    Shape ``(batch, channels, {space})``; with `return_indices` a tuple of two tensors of this shape.
    """
    name = f"max_pool{_dims}d"
    x = pooled_array(name, _dims, input)
    pool = pool_of(name, _dims, kernel_size, stride, padding, dilation, ceil_mode)
    windows = windows_of(name, x, pool)
    return largest(_dims, input, x, windows, return_indices)  # type: ignore[no-any-return]


max_pool1d: Final = cast("MaxPool", _max_pool[1])
max_pool2d: Final = cast("MaxPool", _max_pool[2])
max_pool3d: Final = cast("MaxPool", _max_pool[3])


class AdaptiveMaxPool(Protocol):
    """The type of ``adaptive_max_pool1d`` and the like, which return two tensors with `return_indices`."""

    @overload
    def __call__(
        self, input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = ...
    ) -> Tensor: ...
    @overload
    def __call__(
        self, input: Tensor, output_size: OutputSizes, *, return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self, input: Tensor, output_size: OutputSizes, return_indices: bool = ...
    ) -> Tensor | tuple[Tensor, Tensor]: ...


@Family
@window_sections
@example(
    "nn.functional.adaptive_max_pool{dims}d(tensor.ones((1, 3, {sizes[7,5,4]})), 2).shape",
    Template("(1, 3, {sizes[2]})"),
)
def _adaptive_max_pool(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False, *, _dims: int = 1
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each of `output_size` windows, over {dimensions}.

    Parameters
    ----------
    return_indices
        Also return the index of each largest element, as ``max_pool{dims}d`` does.
    """
    name = f"adaptive_max_pool{_dims}d"
    x = pooled_array(name, _dims, input)
    sizes = output_sizes(name, _dims, output_size, x)
    windows = [adaptive_windows(size, outs) for size, outs in zip(x.shape[-_dims:], sizes, strict=True)]
    return largest(_dims, input, x, windows, return_indices)  # type: ignore[no-any-return]


adaptive_max_pool1d: Final = cast("AdaptiveMaxPool", _adaptive_max_pool[1])
adaptive_max_pool2d: Final = cast("AdaptiveMaxPool", _adaptive_max_pool[2])
adaptive_max_pool3d: Final = cast("AdaptiveMaxPool", _adaptive_max_pool[3])
