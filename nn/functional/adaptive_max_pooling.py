"""Adaptive max pooling: the output has a requested size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, cast, overload

from nn.functional.dimensions import Family
from nn.functional.plane_gather import largest
from nn.functional.windows import OutputSizes, adaptive_windows, output_sizes, pooled_array

if TYPE_CHECKING:
    from tensor import Tensor


class AdaptiveMaxPool(Protocol):
    """The type of ``adaptive_max_pool1d`` and the like: with `return_indices` two tensors."""

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
def _adaptive_max_pool(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False, *, _dims: int = 1
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each of `output_size` windows, over {dimensions}.

    Parameters
    ----------
    input
        Shape ``(batch, channels, {space})``, or without the batch.
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each, as ``max_pool{dims}d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool{dims}d(tensor.ones((1, 3, {sizes[7,5,4]})), 2).shape
    (1, 3, {sizes[2]})
    """
    name = f"adaptive_max_pool{_dims}d"
    x = pooled_array(name, _dims, input)
    sizes = output_sizes(name, _dims, output_size, x)
    windows = [adaptive_windows(size, outs) for size, outs in zip(x.shape[-_dims:], sizes, strict=True)]
    return largest(_dims, input, x, windows, return_indices)  # type: ignore[no-any-return]


adaptive_max_pool1d: Final = cast("AdaptiveMaxPool", _adaptive_max_pool[1])
adaptive_max_pool2d: Final = cast("AdaptiveMaxPool", _adaptive_max_pool[2])
adaptive_max_pool3d: Final = cast("AdaptiveMaxPool", _adaptive_max_pool[3])
