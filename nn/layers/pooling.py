"""Layers of pools: largest elements, averages, and what undoes the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nn import functional as F
from nn.functional.convolutions import sizes_of
from nn.functional.windows import pool_of, sizes_given
from nn.module.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nn.functional.windows import Sizes
    from tensor import Tensor


class _MaxPool(Module):
    _space: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        pool_of(type(self).__name__, self._space, kernel_size, stride, padding, dilation, ceil_mode)
        self.kernel_size: Any = sizes_given(kernel_size)
        self.stride: Any = self.kernel_size if stride is None else sizes_given(stride)
        self.padding: Any = sizes_given(padding)
        self.dilation: Any = sizes_given(dilation)
        self.return_indices: bool = return_indices
        self.ceil_mode: bool = ceil_mode

    # A tuple of two tensors with `return_indices`, which type checkers unpack as they unpack a tensor.
    def forward(self, input: Tensor) -> Tensor:
        """Return the largest element of each window; with `return_indices`, a tuple with their places."""
        found: Tensor = type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            return_indices=self.return_indices,
        )
        return found

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class _MaxUnpool(Module):
    _space: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name, given = type(self).__name__, kernel_size if stride is None else stride
        self.kernel_size: tuple[int, ...] = sizes_of(name, "kernel_size", kernel_size, self._space, 1)
        self.stride: tuple[int, ...] = sizes_of(name, "stride", given, self._space, 1)
        self.padding: tuple[int, ...] = sizes_of(name, "padding", padding, self._space, 0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return zeros with the elements of `input` at `indices`."""
        function = type(self)._function
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    _space: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        pool_of(type(self).__name__, self._space, kernel_size, stride, padding, 1, ceil_mode)
        self.kernel_size: Any = sizes_given(kernel_size)
        self.stride: Any = self.kernel_size if stride is None else sizes_given(stride)
        self.padding: Any = sizes_given(padding)
        self.ceil_mode: bool = ceil_mode
        self.count_include_pad: bool = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(Module):
    _space: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        pool_of(type(self).__name__, self._space, kernel_size, stride, 0, 1, ceil_mode)
        self.norm_type = norm_type
        self.kernel_size: Any = sizes_given(kernel_size)
        self.stride: Any = sizes_given(stride)
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the roots of the sums of powers."""
        function = type(self)._function
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptiveAvgPool(Module):
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Sizes | tuple[int | None, ...] | None) -> None:
        super().__init__()
        self.output_size: Any = sizes_given(output_size)

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return type(self)._function(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(Module):
    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self, output_size: Sizes | tuple[int | None, ...] | None, return_indices: bool = False
    ) -> None:
        super().__init__()
        self.output_size: Any = sizes_given(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        """Return the largest element of each window; with `return_indices`, a tuple with their places."""
        function = type(self)._function
        found: Tensor = function(input, self.output_size, return_indices=self.return_indices)
        return found

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"output_size={self.output_size}"


class MaxPool1d(_MaxPool):
    """The largest element of each window, over one dimension.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        See ``nn.functional.max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MaxPool1d(2)(tensor.ones((2, 3, 8))).shape
    (2, 3, 4)
    """

    _space = 1
    _function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest element of each window, over two dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        See ``nn.functional.max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MaxPool2d(2)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    _space = 2
    _function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest element of each window, over three dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        See ``nn.functional.max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MaxPool3d(2)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    _space = 3
    _function = F.max_pool3d


class MaxUnpool1d(_MaxUnpool):
    """Zeros with the elements of a ``MaxPool1d`` where they had been.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding
        Those of the pool.

    Examples
    --------
    >>> import nn, tensor
    >>> pooled, indices = nn.MaxPool1d(2, return_indices=True)(tensor.ones((2, 3, 8)))
    >>> nn.MaxUnpool1d(2)(pooled, indices).shape
    (2, 3, 8)
    """

    _space = 1
    _function = F.max_unpool1d


class MaxUnpool2d(_MaxUnpool):
    """Zeros with the elements of a ``MaxPool2d`` where they had been.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding
        Those of the pool.

    Examples
    --------
    >>> import nn, tensor
    >>> pooled, indices = nn.MaxPool2d(2, return_indices=True)(tensor.ones((2, 3, 8, 6)))
    >>> nn.MaxUnpool2d(2)(pooled, indices).shape
    (2, 3, 8, 6)
    """

    _space = 2
    _function = F.max_unpool2d


class MaxUnpool3d(_MaxUnpool):
    """Zeros with the elements of a ``MaxPool3d`` where they had been.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding
        Those of the pool.

    Examples
    --------
    >>> import nn, tensor
    >>> pooled, indices = nn.MaxPool3d(2, return_indices=True)(tensor.ones((2, 3, 8, 6, 4)))
    >>> nn.MaxUnpool3d(2)(pooled, indices).shape
    (2, 3, 8, 6, 4)
    """

    _space = 3
    _function = F.max_unpool3d


class AvgPool1d(_AvgPool):
    """The mean of each window, over one dimension.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad
        See ``nn.functional.avg_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AvgPool1d(2)(tensor.ones((2, 3, 8))).shape
    (2, 3, 4)
    """

    _space = 1

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        # PyTorch shows these alone as tuples.
        self.kernel_size, self.stride, self.padding = (
            sizes_of("AvgPool1d", what, getattr(self, what), 1, 0)
            for what in ("kernel_size", "stride", "padding")
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class AvgPool2d(_AvgPool):
    """The mean of each window, over two dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        See ``nn.functional.avg_pool2d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AvgPool2d(2)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    _space = 2
    _function = F.avg_pool2d


class AvgPool3d(_AvgPool):
    """The mean of each window, over three dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        See ``nn.functional.avg_pool2d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AvgPool3d(2)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    _space = 3
    _function = F.avg_pool3d


class LPPool1d(_LPPool):
    """The root of the sum of the powers of each window, over one dimension.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    norm_type, kernel_size, stride, ceil_mode
        See ``nn.functional.lp_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LPPool1d(2, 2)(tensor.ones((2, 3, 8))).shape
    (2, 3, 4)
    """

    _space = 1
    _function = F.lp_pool1d


class LPPool2d(_LPPool):
    """The root of the sum of the powers of each window, over two dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    norm_type, kernel_size, stride, ceil_mode
        See ``nn.functional.lp_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LPPool2d(2, 2)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    _space = 2
    _function = F.lp_pool2d


class LPPool3d(_LPPool):
    """The root of the sum of the powers of each window, over three dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    norm_type, kernel_size, stride, ceil_mode
        See ``nn.functional.lp_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LPPool3d(2, 2)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    _space = 3
    _function = F.lp_pool3d


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of as many windows as are asked for, over one dimension.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveAvgPool1d(3)(tensor.ones((2, 3, 8))).shape
    (2, 3, 3)
    """

    _function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of as many windows as are asked for, over two dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveAvgPool2d(3)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 3, 3)
    """

    _function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of as many windows as are asked for, over three dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveAvgPool3d(3)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 3, 3, 3)
    """

    _function = F.adaptive_avg_pool3d


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of as many windows as are asked for, over one dimension.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.
    return_indices
        Return also where the largest elements lie, as ``MaxPool1d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveMaxPool1d(3)(tensor.ones((2, 3, 8))).shape
    (2, 3, 3)
    """

    _function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of as many windows as are asked for, over two dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.
    return_indices
        Return also where the largest elements lie, as ``MaxPool2d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveMaxPool2d(3)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 3, 3)
    """

    _function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of as many windows as are asked for, over three dimensions.

    Input ``(batch, channels, *sizes)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.
    return_indices
        Return also where the largest elements lie, as ``MaxPool3d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveMaxPool3d(3)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 3, 3, 3)
    """

    _function = F.adaptive_max_pool3d
