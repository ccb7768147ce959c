"""Convolution layers that infer `in_channels` from their first input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nn.layers.convolutions import (
    Conv1d,
    Conv2d,
    Conv3d,
    Convolution,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from nn.layers.rare.lazy_weighted import forget_shapes, set_shapes
from nn.module.lazy import LazyModuleMixin
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError


class _LazyConvolution(LazyModuleMixin, Convolution):
    """Base class of lazy convolutions."""

    def reset_parameters(self) -> None:
        """Initialize the parameters, if they have shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `in_channels` from `input`, unless a state dict has set the shapes."""
        dims = len(self.kernel_size)
        if input.ndim not in (dims + 1, dims + 2):
            raise InvalidArgumentError(
                f"{type(self).__name__}: input must have shape (batch, channels, *sizes) or (channels, "
                f"*sizes), with {dims} {'size' if dims == 1 else 'sizes'}, not {input.shape}"
            )
        self.in_channels: int = input.shape[-dims - 1]
        if not self.has_uninitialized_params():
            return
        if self.in_channels % self.groups:
            raise InvalidArgumentError(
                f"{type(self).__name__}: groups must divide the channels of the input, {self.in_channels}, "
                f"and {self.groups} does not"
            )
        is_transposed = isinstance(self, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
        outer, inner = self.out_channels, self.in_channels
        if is_transposed:
            outer, inner = inner, outer
        weight = (outer, inner // self.groups, *self.kernel_size)
        set_shapes(self, weight=weight, bias=(self.out_channels,))
        self.reset_parameters()


@set_module("nn")
class LazyConv1d(_LazyConvolution, Conv1d):
    """``Conv1d`` that infers ``in_channels`` from its first input.

    Parameters
    ----------
    out_channels
        The numbers of channels of input and output.
    kernel_size
        The sizes of the kernel: one integer, or one for each spatial dimension.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of zeros to add on both sides. ``"same"`` keeps the sizes, ``"valid"`` adds none.
    dilation
        The distance between the elements of a patch.
    groups
        The number of groups of channels. It must divide both numbers of channels.
    bias
        Whether to add a bias for each output channel.
    padding_mode
        The values of the padding: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``; see
        ``nn.functional.pad``.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LazyConv1d(2, 2)(tensor.ones((1, 3, 4))).shape
    (1, 2, 3)
    """

    cls_to_become: ClassVar[type[Module] | None] = Conv1d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        forget_shapes(self, dtype)


@set_module("nn")
class LazyConv2d(_LazyConvolution, Conv2d):
    """``Conv2d`` that infers ``in_channels`` from its first input.

    Parameters
    ----------
    out_channels
        The numbers of channels of input and output.
    kernel_size
        The sizes of the kernel: one integer, or one for each spatial dimension.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of zeros to add on both sides. ``"same"`` keeps the sizes, ``"valid"`` adds none.
    dilation
        The distance between the elements of a patch.
    groups
        The number of groups of channels. It must divide both numbers of channels.
    bias
        Whether to add a bias for each output channel.
    padding_mode
        The values of the padding: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``; see
        ``nn.functional.pad``.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LazyConv2d(2, 2)(tensor.ones((1, 3, 4, 4))).shape
    (1, 2, 3, 3)
    """

    cls_to_become: ClassVar[type[Module] | None] = Conv2d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        forget_shapes(self, dtype)


@set_module("nn")
class LazyConv3d(_LazyConvolution, Conv3d):
    """``Conv3d`` that infers ``in_channels`` from its first input.

    Parameters
    ----------
    out_channels
        The numbers of channels of input and output.
    kernel_size
        The sizes of the kernel: one integer, or one for each spatial dimension.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of zeros to add on both sides. ``"same"`` keeps the sizes, ``"valid"`` adds none.
    dilation
        The distance between the elements of a patch.
    groups
        The number of groups of channels. It must divide both numbers of channels.
    bias
        Whether to add a bias for each output channel.
    padding_mode
        The values of the padding: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``; see
        ``nn.functional.pad``.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LazyConv3d(2, 2)(tensor.ones((1, 3, 4, 4, 4))).shape
    (1, 2, 3, 3, 3)
    """

    cls_to_become: ClassVar[type[Module] | None] = Conv3d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        forget_shapes(self, dtype)


@set_module("nn")
class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    """``ConvTranspose1d`` that infers ``in_channels`` from its first input.

    Parameters
    ----------
    out_channels
        The numbers of channels of input and output.
    kernel_size
        The sizes of the kernel: one integer, or one for each spatial dimension.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of elements to remove from both sides of the output.
    output_padding
        The number of elements to add at the end of the output. It selects one of the output sizes that match
        the input size.
    groups
        The number of groups of channels. It must divide both numbers of channels.
    bias
        Whether to add a bias for each output channel.
    dilation
        The distance between the elements of a patch.
    padding_mode
        ``"zeros"``.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LazyConvTranspose1d(2, 2)(tensor.ones((1, 3, 4))).shape
    (1, 2, 5)
    """

    cls_to_become: ClassVar[type[Module] | None] = ConvTranspose1d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        forget_shapes(self, dtype)


@set_module("nn")
class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    """``ConvTranspose2d`` that infers ``in_channels`` from its first input.

    Parameters
    ----------
    out_channels
        The numbers of channels of input and output.
    kernel_size
        The sizes of the kernel: one integer, or one for each spatial dimension.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of elements to remove from both sides of the output.
    output_padding
        The number of elements to add at the end of the output. It selects one of the output sizes that match
        the input size.
    groups
        The number of groups of channels. It must divide both numbers of channels.
    bias
        Whether to add a bias for each output channel.
    dilation
        The distance between the elements of a patch.
    padding_mode
        ``"zeros"``.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LazyConvTranspose2d(2, 2)(tensor.ones((1, 3, 4, 4))).shape
    (1, 2, 5, 5)
    """

    cls_to_become: ClassVar[type[Module] | None] = ConvTranspose2d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        forget_shapes(self, dtype)


@set_module("nn")
class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    """``ConvTranspose3d`` that infers ``in_channels`` from its first input.

    Parameters
    ----------
    out_channels
        The numbers of channels of input and output.
    kernel_size
        The sizes of the kernel: one integer, or one for each spatial dimension.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of elements to remove from both sides of the output.
    output_padding
        The number of elements to add at the end of the output. It selects one of the output sizes that match
        the input size.
    groups
        The number of groups of channels. It must divide both numbers of channels.
    bias
        Whether to add a bias for each output channel.
    dilation
        The distance between the elements of a patch.
    padding_mode
        ``"zeros"``.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LazyConvTranspose3d(2, 2)(tensor.ones((1, 3, 4, 4, 4))).shape
    (1, 2, 5, 5, 5)
    """

    cls_to_become: ClassVar[type[Module] | None] = ConvTranspose3d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        forget_shapes(self, dtype)
