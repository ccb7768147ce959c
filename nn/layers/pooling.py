"""Pooling layers: max, average, norm and adaptive pooling, and max unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from nn import functional as F
from nn.functional.convolutions import sizes_of
from nn.functional.windows import OutputSizes, Sizes, pool_of, sizes_given
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor

# With `return_indices`, max pooling returns a tuple of two tensors. `forward` is annotated with `Tensor` for
# the usual case. Type checkers accept unpacking too, because a tensor can be unpacked.


class _MaxPool(Module):
    """Base class of max pooling layers. `_dims`: the number of spatial dimensions."""

    _dims: ClassVar[int]

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
        stride = kernel_size if stride is None else stride
        pool_of(type(self).__name__, self._dims, kernel_size, stride, padding, dilation, ceil_mode)
        self.kernel_size: Sizes = sizes_given(kernel_size)
        self.stride: Sizes = sizes_given(stride)
        self.padding: Sizes = sizes_given(padding)
        self.dilation: Sizes = sizes_given(dilation)
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class _MaxUnpool(Module):
    """Base class of max unpooling layers. `_dims`: the number of spatial dimensions."""

    _dims: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name, given = type(self).__name__, kernel_size if stride is None else stride
        self.kernel_size: tuple[int, ...] = sizes_of(name, "kernel_size", kernel_size, self._dims, 1)
        self.stride: tuple[int, ...] = sizes_of(name, "stride", given, self._dims, 1)
        self.padding: tuple[int, ...] = sizes_of(name, "padding", padding, self._dims, 0)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """Base class of average pooling layers. `_dims`: the number of spatial dimensions."""

    _dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        stride = kernel_size if stride is None else stride
        pool_of(type(self).__name__, self._dims, kernel_size, stride, padding, 1, ceil_mode)
        self.kernel_size: Sizes = sizes_given(kernel_size)
        self.stride: Sizes = sizes_given(stride)
        self.padding: Sizes = sizes_given(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def extra_repr(self) -> str:
        """Return the options."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(Module):
    """Base class of norm pooling layers. `_dims`: the number of spatial dimensions."""

    _dims: ClassVar[int]

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        pool_of(type(self).__name__, self._dims, kernel_size, stride, 0, 1, ceil_mode)
        self.norm_type = norm_type
        self.kernel_size: Sizes = sizes_given(kernel_size)
        self.stride: Sizes | None = sizes_given(stride)
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptiveAvgPool(Module):
    """Base class of adaptive average pooling layers."""

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size: OutputSizes = sizes_given(output_size)

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(Module):
    """Base class of adaptive max pooling layers."""

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size: OutputSizes = sizes_given(output_size)
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


@set_module("nn")
class MaxPool1d(_MaxPool):
    """Max pooling over one dimension.

    Input ``(batch, channels, length)``, or without the batch.

    Parameters
    ----------
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool1d``.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MaxPool1d(2)(tensor.ones((2, 3, 8))).shape
    (2, 3, 4)
    """

    _dims = 1

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.max_pool1d(  # type: ignore[return-value]
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


@set_module("nn")
class MaxPool2d(_MaxPool):
    """Max pooling over two dimensions.

    Input ``(batch, channels, height, width)``, or without the batch.

    Parameters
    ----------
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool2d``.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MaxPool2d(2)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    _dims = 2

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.max_pool2d(  # type: ignore[return-value]
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


@set_module("nn")
class MaxPool3d(_MaxPool):
    """Max pooling over three dimensions.

    Input ``(batch, channels, depth, height, width)``, or without the batch.

    Parameters
    ----------
    kernel_size
        The size of a window: one integer, or one for each spatial dimension. All sizes take this form.
    stride
        The distance between windows; ``kernel_size`` for None.
    padding
        The number of elements of minus infinity to add on both sides, at most half of the dilated kernel
        size.
    dilation
        The distance between the elements of a window.
    return_indices
        Also return the index of each largest element in the flattened spatial dimensions, int64, for
        ``max_unpool3d``.
    ceil_mode
        Round the number of windows up, so that the last window may reach beyond the padding.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MaxPool3d(2)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    _dims = 3

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.max_pool3d(  # type: ignore[return-value]
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


@set_module("nn")
class MaxUnpool1d(_MaxUnpool):
    """Inverse of ``MaxPool1d``: puts the maxima back at their indices, and 0 elsewhere.

    Input ``(batch, channels, length)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding
        The options of the pooling layer.

    Examples
    --------
    >>> import nn, tensor
    >>> pooled, indices = nn.MaxPool1d(2, return_indices=True)(tensor.ones((2, 3, 8)))
    >>> nn.MaxUnpool1d(2)(pooled, indices).shape
    (2, 3, 8)
    """

    _dims = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return zeros with the elements of `input` at `indices`."""
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@set_module("nn")
class MaxUnpool2d(_MaxUnpool):
    """Inverse of ``MaxPool2d``: puts the maxima back at their indices, and 0 elsewhere.

    Input ``(batch, channels, height, width)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding
        The options of the pooling layer.

    Examples
    --------
    >>> import nn, tensor
    >>> pooled, indices = nn.MaxPool2d(2, return_indices=True)(tensor.ones((2, 3, 8, 6)))
    >>> nn.MaxUnpool2d(2)(pooled, indices).shape
    (2, 3, 8, 6)
    """

    _dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return zeros with the elements of `input` at `indices`."""
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@set_module("nn")
class MaxUnpool3d(_MaxUnpool):
    """Inverse of ``MaxPool3d``: puts the maxima back at their indices, and 0 elsewhere.

    Input ``(batch, channels, depth, height, width)``, or without the batch.

    Parameters
    ----------
    kernel_size, stride, padding
        The options of the pooling layer.

    Examples
    --------
    >>> import nn, tensor
    >>> pooled, indices = nn.MaxPool3d(2, return_indices=True)(tensor.ones((2, 3, 8, 6, 4)))
    >>> nn.MaxUnpool3d(2)(pooled, indices).shape
    (2, 3, 8, 6, 4)
    """

    _dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return zeros with the elements of `input` at `indices`."""
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@set_module("nn")
class AvgPool1d(_AvgPool):
    """Average pooling over one dimension.

    Input ``(batch, channels, length)``, or without the batch.

    Parameters
    ----------
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

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AvgPool1d(2)(tensor.ones((2, 3, 8))).shape
    (2, 3, 4)
    """

    _dims = 1

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        # PyTorch shows these options as tuples in this layer only.
        self.kernel_size: Sizes = sizes_of("AvgPool1d", "kernel_size", self.kernel_size, 1, 0)
        self.stride: Sizes = sizes_of("AvgPool1d", "stride", self.stride, 1, 0)
        self.padding: Sizes = sizes_of("AvgPool1d", "padding", self.padding, 1, 0)

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


@set_module("nn")
class AvgPool2d(_AvgPool):
    """Average pooling over two dimensions.

    Input ``(batch, channels, height, width)``, or without the batch.

    Parameters
    ----------
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

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AvgPool2d(2)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    _dims = 2

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


@set_module("nn")
class AvgPool3d(_AvgPool):
    """Average pooling over three dimensions.

    Input ``(batch, channels, depth, height, width)``, or without the batch.

    Parameters
    ----------
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

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AvgPool3d(2)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    _dims = 3

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


@set_module("nn")
class LPPool1d(_LPPool):
    """Power-average pooling, the norm of each window, over one dimension.

    Input ``(batch, channels, length)``, or without the batch.

    Parameters
    ----------
    norm_type
        The degree of the norm; infinity for the largest magnitude.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LPPool1d(2, 2)(tensor.ones((2, 3, 8))).shape
    (2, 3, 4)
    """

    _dims = 1

    def forward(self, input: Tensor) -> Tensor:
        """Return the roots of the sums of powers."""
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@set_module("nn")
class LPPool2d(_LPPool):
    """Power-average pooling, the norm of each window, over two dimensions.

    Input ``(batch, channels, height, width)``, or without the batch.

    Parameters
    ----------
    norm_type
        The degree of the norm; infinity for the largest magnitude.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LPPool2d(2, 2)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    _dims = 2

    def forward(self, input: Tensor) -> Tensor:
        """Return the roots of the sums of powers."""
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@set_module("nn")
class LPPool3d(_LPPool):
    """Power-average pooling, the norm of each window, over three dimensions.

    Input ``(batch, channels, depth, height, width)``, or without the batch.

    Parameters
    ----------
    norm_type
        The degree of the norm; infinity for the largest magnitude.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LPPool3d(2, 2)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    _dims = 3

    def forward(self, input: Tensor) -> Tensor:
        """Return the roots of the sums of powers."""
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@set_module("nn")
class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Adaptive average pooling to a given output size, over one dimension.

    Input ``(batch, channels, length)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveAvgPool1d(3)(tensor.ones((2, 3, 8))).shape
    (2, 3, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return F.adaptive_avg_pool1d(input, self.output_size)


@set_module("nn")
class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Adaptive average pooling to a given output size, over two dimensions.

    Input ``(batch, channels, height, width)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveAvgPool2d(3)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 3, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return F.adaptive_avg_pool2d(input, self.output_size)


@set_module("nn")
class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Adaptive average pooling to a given output size, over three dimensions.

    Input ``(batch, channels, depth, height, width)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveAvgPool3d(3)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 3, 3, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return F.adaptive_avg_pool3d(input, self.output_size)


@set_module("nn")
class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Adaptive max pooling to a given output size, over one dimension.

    Input ``(batch, channels, length)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each largest element, as ``max_pool1d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveMaxPool1d(3)(tensor.ones((2, 3, 8))).shape
    (2, 3, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)  # type: ignore[return-value]


@set_module("nn")
class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Adaptive max pooling to a given output size, over two dimensions.

    Input ``(batch, channels, height, width)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each largest element, as ``max_pool2d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveMaxPool2d(3)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 3, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)  # type: ignore[return-value]


@set_module("nn")
class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Adaptive max pooling to a given output size, over three dimensions.

    Input ``(batch, channels, depth, height, width)``, or without the batch.

    Parameters
    ----------
    output_size
        One integer, or one for each spatial dimension. None keeps the size of the input.
    return_indices
        Also return the index of each largest element, as ``max_pool3d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AdaptiveMaxPool3d(3)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 3, 3, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)  # type: ignore[return-value]
