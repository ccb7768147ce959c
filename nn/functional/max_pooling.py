"""Max pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, cast, overload

from nn.functional.dimensions import Family
from nn.functional.plane_gather import largest
from nn.functional.windows import Sizes, pool_of, pooled_array, windows_of

if TYPE_CHECKING:
    from tensor import Tensor


class MaxPool(Protocol):
    """The type of ``max_pool1d``, ``max_pool2d`` and ``max_pool3d``: with `return_indices` two tensors."""

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
    input
        Shape ``(batch, channels, {space})``, or without the batch.
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. The same holds for `stride`,
        `padding` and `dilation`.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The padding on both sides with minus infinity, at most half of the dilated kernel size.
    dilation
        The distance between the elements of a window.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool{dims}d``.

    Returns
    -------
    Shape ``(batch, channels, {space})``; with `return_indices` a tuple of two tensors of this shape.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool{dims}d(tensor.ones((8, 3, {sizes[7,5,6]})), 3, stride=2, padding=1).shape
    (8, 3, {sizes[4,3,3]})
    """
    name = f"max_pool{_dims}d"
    x = pooled_array(name, _dims, input)
    pool = pool_of(name, _dims, kernel_size, stride, padding, dilation, ceil_mode)
    windows = windows_of(name, x, pool)
    return largest(_dims, input, x, windows, return_indices)  # type: ignore[no-any-return]


max_pool1d: Final = cast("MaxPool", _max_pool[1])
max_pool2d: Final = cast("MaxPool", _max_pool[2])
max_pool3d: Final = cast("MaxPool", _max_pool[3])
