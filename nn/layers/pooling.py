"""Pooling layers: max, average, norm and adaptive pooling, and max unpooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nn.functional.convolutions import sizes_of
from nn.functional.windows import pool_of, sizes_given
from nn.layers.dimensions import Dimensional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn.functional.windows import OutputSizes, Sizes
    from tensor import Tensor


_INPUT = "Input ``(batch, channels, {space})``, or without the batch."


class _Pool(Dimensional):
    """Base class of pools. Its `forward` passes the options in `_passed` to the function."""

    _start = _INPUT
    _passed: ClassVar[tuple[str, ...]]

    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool

    def _set_window(
        self,
        kernel_size: Sizes,
        stride: Sizes | None,
        ceil_mode: bool,
        padding: Sizes = 0,
        dilation: Sizes = 1,
    ) -> None:
        """Check the options of the windows, and store those that the layer has."""
        super().__init__()
        pool_of(type(self).__name__, self._dims, kernel_size, stride, padding, dilation, ceil_mode)
        sizes = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
        for name, given in sizes.items():
            if name in self._passed:
                setattr(self, name, sizes_given(given))
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return a number for each window."""
        return type(self)._function(input, **{name: getattr(self, name) for name in self._passed})


class _MaxPool(_Pool):
    _family = "max_pool"
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    _passed = (*_shown, "return_indices")
    _sections = """
        Parameters
        ----------
        kernel_size, stride, padding, dilation, ceil_mode, return_indices
            See ``nn.functional.max_pool{dims}d``.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.MaxPool{dims}d(2)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape
        (2, 3, {sizes[4,3,2]})
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self._set_window(kernel_size, kernel_size if stride is None else stride, ceil_mode, padding, dilation)
        self.return_indices: bool = return_indices

    # With `return_indices` the result is a tuple of two tensors. Type checkers unpack it as they unpack a
    # tensor.
    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return super().forward(input)


class _MaxUnpool(Dimensional):
    _family = "max_unpool"
    _start = _INPUT
    _shown = ("kernel_size", "stride", "padding")
    _sections = """
        Parameters
        ----------
        kernel_size, stride, padding
            The options of the pooling layer.

        Examples
        --------
        >>> import nn, tensor
        >>> pooled, indices = nn.MaxPool{dims}d(2, return_indices=True)(tensor.ones((2, 3, {sizes[8,6,4]})))
        >>> nn.MaxUnpool{dims}d(2)(pooled, indices).shape
        (2, 3, {sizes[8,6,4]})
    """

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name, given = type(self).__name__, kernel_size if stride is None else stride
        self.kernel_size: tuple[int, ...] = sizes_of(name, "kernel_size", kernel_size, self._dims, 1)
        self.stride: tuple[int, ...] = sizes_of(name, "stride", given, self._dims, 1)
        self.padding: tuple[int, ...] = sizes_of(name, "padding", padding, self._dims, 0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return zeros with the elements of `input` at `indices`."""
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPool(_Pool):
    _family = "avg_pool"
    _shown = ("kernel_size", "stride", "padding")
    _passed: ClassVar[tuple[str, ...]] = (*_shown, "ceil_mode", "count_include_pad", "divisor_override")
    _sections = """
        Parameters
        ----------
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
            See ``nn.functional.avg_pool{dims}d``.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.AvgPool{dims}d(2)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape
        (2, 3, {sizes[4,3,2]})
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._set_window(kernel_size, kernel_size if stride is None else stride, ceil_mode, padding)
        self.count_include_pad: bool = count_include_pad
        self.divisor_override = divisor_override


class _LPPool(_Pool):
    _family = "lp_pool"
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")
    _passed = _shown
    _sections = """
        Parameters
        ----------
        norm_type, kernel_size, stride, ceil_mode
            See ``nn.functional.lp_pool{dims}d``.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.LPPool{dims}d(2, 2)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape
        (2, 3, {sizes[4,3,2]})
    """

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        self._set_window(kernel_size, stride, ceil_mode)
        self.norm_type: float = norm_type

    def forward(self, input: Tensor) -> Tensor:
        """Return the roots of the sums of powers."""
        return type(self)._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveAvgPool(_Pool):
    _family = "adaptive_avg_pool"
    _shown = ("output_size",)
    _passed: ClassVar[tuple[str, ...]] = _shown
    _sections = """
        Parameters
        ----------
        output_size
            One integer, or one for each spatial dimension; None keeps the size of the input.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.AdaptiveAvgPool{dims}d(3)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape
        (2, 3, {sizes[3]})
    """

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size: Any = sizes_given(output_size)


class _AdaptiveMaxPool(_AdaptiveAvgPool):
    _family = "adaptive_max_pool"
    _passed = ("output_size", "return_indices")
    _sections = """
        Parameters
        ----------
        output_size
            One integer, or one for each spatial dimension; None keeps the size of the input.
        return_indices
            Also return the indices of the maxima, as ``MaxPool{dims}d`` does.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.AdaptiveMaxPool{dims}d(3)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape
        (2, 3, {sizes[3]})
    """

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return super().forward(input)


class MaxPool1d(_MaxPool, dims=1):
    """Max pooling over one dimension."""


class MaxPool2d(_MaxPool, dims=2):
    """Max pooling over two dimensions."""


class MaxPool3d(_MaxPool, dims=3):
    """Max pooling over three dimensions."""


class MaxUnpool1d(_MaxUnpool, dims=1):
    """Inverse of ``MaxPool1d``: puts the maxima back at their indices, and 0 elsewhere."""


class MaxUnpool2d(_MaxUnpool, dims=2):
    """Inverse of ``MaxPool2d``: puts the maxima back at their indices, and 0 elsewhere."""


class MaxUnpool3d(_MaxUnpool, dims=3):
    """Inverse of ``MaxPool3d``: puts the maxima back at their indices, and 0 elsewhere."""


class AvgPool1d(_AvgPool, dims=1):
    """Average pooling over one dimension."""

    _passed = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

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
        self.kernel_size, self.stride, self.padding = (
            sizes_of("AvgPool1d", what, getattr(self, what), 1, 0)
            for what in ("kernel_size", "stride", "padding")
        )


class AvgPool2d(_AvgPool, dims=2):
    """Average pooling over two dimensions."""


class AvgPool3d(_AvgPool, dims=3):
    """Average pooling over three dimensions."""


class LPPool1d(_LPPool, dims=1):
    """Power-average pooling, the norm of each window, over one dimension."""


class LPPool2d(_LPPool, dims=2):
    """Power-average pooling, the norm of each window, over two dimensions."""


class LPPool3d(_LPPool, dims=3):
    """Power-average pooling, the norm of each window, over three dimensions."""


class AdaptiveAvgPool1d(_AdaptiveAvgPool, dims=1):
    """Adaptive average pooling to a given output size, over one dimension."""


class AdaptiveAvgPool2d(_AdaptiveAvgPool, dims=2):
    """Adaptive average pooling to a given output size, over two dimensions."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, dims=3):
    """Adaptive average pooling to a given output size, over three dimensions."""


class AdaptiveMaxPool1d(_AdaptiveMaxPool, dims=1):
    """Adaptive max pooling to a given output size, over one dimension."""


class AdaptiveMaxPool2d(_AdaptiveMaxPool, dims=2):
    """Adaptive max pooling to a given output size, over two dimensions."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, dims=3):
    """Adaptive max pooling to a given output size, over three dimensions."""
