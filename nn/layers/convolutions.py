"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nn import functional as F
from nn.functional.convolutions import geometry_of, sizes_of
from nn.functional.padding import pad
from nn.layers.weighted import init_uniform, new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import shown

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Convolution(Module):
    """Base class of all convolution layers: options, parameters, initial values."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: str | int | Sequence[int],
        dilation: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: str | None,
        dtype: DtypeLike | None,
        *,
        is_transposed: bool = False,
        output_padding: int | Sequence[int] = 0,
    ) -> None:
        name = type(self).__name__
        kernel_sizes = sizes_of(name, "kernel_size", kernel_size, dims, 1)
        strides = sizes_of(name, "stride", stride, dims, 1)
        paddings = padding if isinstance(padding, str) else sizes_of(name, "padding", padding, dims, 0)
        dilations = sizes_of(name, "dilation", dilation, dims, 1)
        output_paddings = sizes_of(name, "output_padding", output_padding, dims, 0)
        if isinstance(padding, str) and (padding not in ("valid", "same") or is_transposed):
            names = "" if is_transposed else "'valid', 'same' or "
            raise ValueError(f"{name}: padding must be {names}integers, not {shown(padding)}")
        if padding == "same" and set(strides) != {1}:
            raise ValueError(f"{name}: padding='same' requires a stride of 1, not {strides}")
        modes = ("zeros",) if is_transposed else _PADDING_MODES
        if padding_mode not in modes:
            raise ValueError(
                f"{name}: padding_mode must be {' or '.join(map(repr, modes))}, not {shown(padding_mode)}"
            )
        super().__init__()
        require_cpu(device)
        require_size(name, "in_channels", in_channels)
        require_size(name, "out_channels", out_channels)
        if type(groups) is not int or groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups must divide in_channels, {in_channels}, and out_channels, {out_channels}, "
                f"and {shown(groups)} does not"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size: tuple[int, ...] = kernel_sizes
        self.stride: tuple[int, ...] = strides
        self.padding: str | tuple[int, ...] = paddings
        self.dilation: tuple[int, ...] = dilations
        self.output_padding: tuple[int, ...] = output_paddings
        self.groups = groups
        self.padding_mode = padding_mode
        outer, inner = (in_channels, out_channels) if is_transposed else (out_channels, in_channels)
        self.weight = new_parameter((outer, inner // groups, *kernel_sizes), dtype)
        self.register_parameter("bias", new_parameter((out_channels,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize both parameters uniformly within +-1 / sqrt(fan_in), as PyTorch does."""
        init_uniform(self.weight, self.bias, math.prod(self.weight.shape[1:]))

    def extra_repr(self) -> str:
        """Return the channels, kernel size and stride, and the other options that are not defaults."""
        dims = len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        if self.padding != (0,) * dims:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * dims:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * dims:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _padded(self, input: Tensor) -> tuple[Tensor, str | tuple[int, ...]]:
        """Return the input, padded unless with zeros, and the padding that the convolution adds."""
        if self.padding_mode == "zeros":
            return input, self.padding
        name = type(self).__name__
        geometry = geometry_of(name, self.kernel_size, self.stride, self.padding, self.dilation, self.groups)
        # `pad` takes the padding before and after each dimension, last dimension first.
        pads = [n for pair in reversed(geometry.padding) for n in pair]
        return pad(input, pads, self.padding_mode), (0,) * len(self.kernel_size)

    def _output_padding_for(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output padding with which a transposed convolution has this output size."""
        if output_size is None:
            return self.output_padding
        name, dims = type(self).__name__, len(self.kernel_size)
        wanted = tuple(output_size)[-dims:]
        padding = sizes_of(name, "padding", self.padding, dims, 0)
        least = [
            (input.shape[i - dims] - 1) * self.stride[i]
            - 2 * padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(dims)
        ]
        more = tuple([n - low for n, low in zip(wanted, least, strict=False)])
        if len(more) != dims or any(n < 0 or n >= jump for n, jump in zip(more, self.stride, strict=True)):
            most = tuple([low + jump - 1 for low, jump in zip(least, self.stride, strict=True)])
            raise ValueError(
                f"{name}: for this input, output_size must be from {tuple(least)} to {most}, not {wanted}"
            )
        return more


@set_module("nn")
class Conv1d(Convolution):
    """Convolution over one dimension, of sequences ``(batch, in_channels, length)``.

    Input ``(batch, in_channels, length)``, or without the batch; output with ``out_channels``.

    Parameters
    ----------
    in_channels, out_channels
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
    >>> nn.Conv1d(2, 4, 3)(tensor.ones((8, 2, 10))).shape
    (8, 4, 8)
    """

    def __init__(
        self,
        in_channels: int,
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
            1,
            in_channels,
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

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution."""
        x, padding = self._padded(input)
        return F.conv1d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


@set_module("nn")
class Conv2d(Convolution):
    """Convolution over two dimensions, of images ``(batch, in_channels, height, width)``.

    Input ``(batch, in_channels, height, width)``, or without the batch; output with ``out_channels``.

    Parameters
    ----------
    in_channels, out_channels
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
    >>> nn.Conv2d(2, 4, 3)(tensor.ones((8, 2, 10, 8))).shape
    (8, 4, 8, 6)
    """

    def __init__(
        self,
        in_channels: int,
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
            2,
            in_channels,
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

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution."""
        x, padding = self._padded(input)
        return F.conv2d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


@set_module("nn")
class Conv3d(Convolution):
    """Convolution over three dimensions, of volumes ``(batch, in_channels, depth, height, width)``.

    Input ``(batch, in_channels, depth, height, width)``, or without the batch; output with ``out_channels``.

    Parameters
    ----------
    in_channels, out_channels
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
    >>> nn.Conv3d(2, 4, 3)(tensor.ones((8, 2, 10, 8, 6))).shape
    (8, 4, 8, 6, 4)
    """

    def __init__(
        self,
        in_channels: int,
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
            3,
            in_channels,
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

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution."""
        x, padding = self._padded(input)
        return F.conv3d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


@set_module("nn")
class ConvTranspose1d(Convolution):
    """Transposed convolution: the gradient of ``Conv1d`` with respect to its input.

    Input ``(batch, in_channels, length)``, or without the batch; output with ``out_channels``.

    Parameters
    ----------
    in_channels, out_channels
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
    >>> nn.ConvTranspose1d(2, 4, 3, stride=2)(tensor.ones((8, 2, 10))).shape
    (8, 4, 21)
    """

    def __init__(
        self,
        in_channels: int,
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
            1,
            in_channels,
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
            is_transposed=True,
            output_padding=output_padding,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution. `output_size` selects one of the possible output sizes."""
        more = self._output_padding_for(input, output_size)
        padding = cast("tuple[int, ...]", self.padding)  # the constructor refuses text
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, padding, more, self.groups, self.dilation
        )


@set_module("nn")
class ConvTranspose2d(Convolution):
    """Transposed convolution: the gradient of ``Conv2d`` with respect to its input.

    Input ``(batch, in_channels, height, width)``, or without the batch; output with ``out_channels``.

    Parameters
    ----------
    in_channels, out_channels
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
    >>> nn.ConvTranspose2d(2, 4, 3, stride=2)(tensor.ones((8, 2, 10, 5))).shape
    (8, 4, 21, 11)
    """

    def __init__(
        self,
        in_channels: int,
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
            2,
            in_channels,
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
            is_transposed=True,
            output_padding=output_padding,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution. `output_size` selects one of the possible output sizes."""
        more = self._output_padding_for(input, output_size)
        padding = cast("tuple[int, ...]", self.padding)  # the constructor refuses text
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, padding, more, self.groups, self.dilation
        )


@set_module("nn")
class ConvTranspose3d(Convolution):
    """Transposed convolution: the gradient of ``Conv3d`` with respect to its input.

    Input ``(batch, in_channels, depth, height, width)``, or without the batch; output with ``out_channels``.

    Parameters
    ----------
    in_channels, out_channels
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
    >>> nn.ConvTranspose3d(2, 4, 3, stride=2)(tensor.ones((8, 2, 10, 5, 2))).shape
    (8, 4, 21, 11, 5)
    """

    def __init__(
        self,
        in_channels: int,
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
            3,
            in_channels,
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
            is_transposed=True,
            output_padding=output_padding,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution. `output_size` selects one of the possible output sizes."""
        more = self._output_padding_for(input, output_size)
        padding = cast("tuple[int, ...]", self.padding)  # the constructor refuses text
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, padding, more, self.groups, self.dilation
        )
