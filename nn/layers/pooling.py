"""Pooling layers: max, average, norm and adaptive pooling, and max unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nn.functional.convolutions import sizes_of
from nn.functional.windows import OutputSizes, Sizes, pool_of, sizes_given
from nn.layers.dimensions import Dimensional
from nn.layers.function_layers import Unary
from nn.module.options import options
from tensor import Tensor


class _Pool(Dimensional, Unary):
    """Base class of pooling layers."""

    _sections = "Input ``(batch, channels, {space})``, or without the batch."

    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options({name: sizes_given(value) for name, value in given.items()})


class _WindowPool(_Pool):
    """Base class of pooling layers with windows of one size, which is also the default of `stride`."""

    _example = ("nn.{name}(2)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape", "(2, 3, {sizes[4,3,2]})")

    def _set_options(self, given: dict[str, Any]) -> None:
        if given["stride"] is None:
            given["stride"] = given["kernel_size"]
        check_windows(type(self).__name__, self._dims, given)
        super()._set_options(given)


def check_windows(name: str, dims: int, given: dict[str, Any]) -> None:
    """Raise an error if the options of the windows are wrong."""
    padding, dilation = given.get("padding", 0), given.get("dilation", 1)
    pool_of(name, dims, given["kernel_size"], given["stride"], padding, dilation, given["ceil_mode"])


@options
class _MaxPool(_WindowPool):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    dilation: Sizes = 1
    return_indices: bool = False
    ceil_mode: bool = False

    _family = "max_pool"
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    # With `return_indices` the result is a tuple of two tensors. Type checkers accept unpacking, because a
    # tensor can be unpacked too.
    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return super().forward(input)


@options
class _AvgPool(_WindowPool):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    _family = "avg_pool"
    _shown = ("kernel_size", "stride", "padding")


@options
class _DividedAvgPool(_AvgPool):
    divisor_override: int | None = None


@options
class _LPPool(_Pool):
    norm_type: float
    kernel_size: Sizes
    stride: Sizes | None = None
    ceil_mode: bool = False

    _family = "lp_pool"
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")
    _texts: ClassVar = {"norm_type": "The degree of the norm; infinity for the largest magnitude."}
    _example = ("nn.{name}(2, 2)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape", "(2, 3, {sizes[4,3,2]})")

    def _set_options(self, given: dict[str, Any]) -> None:
        check_windows(type(self).__name__, self._dims, given)
        super()._set_options(given)

    def forward(self, input: Tensor) -> Tensor:
        """Return the roots of the sums of powers."""
        return type(self)._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


@options
class _AdaptiveAvgPool(_Pool):
    output_size: OutputSizes

    _family = "adaptive_avg_pool"
    _shown = ("output_size",)
    _example = ("nn.{name}(3)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape", "(2, 3, {sizes[3]})")


@options
class _AdaptiveMaxPool(_AdaptiveAvgPool):
    return_indices: bool = False

    _family = "adaptive_max_pool"

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return super().forward(input)


class _MaxUnpool(Dimensional):
    _family = "max_unpool"
    _shown = ("kernel_size", "stride", "padding")
    _texts: ClassVar = dict.fromkeys(_shown, "The options of the pooling layer.")
    _sections = """
        Input ``(batch, channels, {space})``, or without the batch.

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

    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options(given)
        # PyTorch shows these options as tuples in this layer only.
        for name in self._shown:
            setattr(self, name, sizes_of("AvgPool1d", name, given[name], 1, 0))


class AvgPool2d(_DividedAvgPool, dims=2):
    """Average pooling over two dimensions."""


class AvgPool3d(_DividedAvgPool, dims=3):
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
