"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn.functional.convolutions import geometry_of, sizes_of
from nn.functional.padding import pad
from nn.layers.dimensions import Dimensional
from nn.layers.weighted import Uniform, require_size
from tensor.lowlevel import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.lowlevel import DtypeLike


class Convolution(Uniform, Dimensional):
    """Base class of all convolution layers: options, parameters, initial values."""

    _is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: str | int | Sequence[int],
        dilation: int | Sequence[int],
        groups: int,
        bias: bool,
        output_padding: int | Sequence[int],
        padding_mode: str,
        device: str | None,
        dtype: DtypeLike | None,
    ) -> None:
        super().__init__(device)
        name, space = type(self).__name__, self._dims
        require_size(name, "in_channels", in_channels)
        require_size(name, "out_channels", out_channels)
        if type(groups) is not int or groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups must divide in_channels, {in_channels}, and out_channels, {out_channels}, "
                f"and {shown(groups)} does not"
            )
        self.in_channels: int = in_channels
        self.out_channels: int = out_channels
        self.groups: int = groups
        self.kernel_size: tuple[int, ...] = sizes_of(name, "kernel_size", kernel_size, space, 1)
        self.stride: tuple[int, ...] = sizes_of(name, "stride", stride, space, 1)
        self.padding: str | tuple[int, ...] = (
            padding if isinstance(padding, str) else sizes_of(name, "padding", padding, space, 0)
        )
        if isinstance(padding, str) and (padding not in ("valid", "same") or self._is_transposed):
            raise ValueError(f"{name}: padding is 'valid', 'same' or sizes, not {shown(padding)}")
        if padding == "same" and set(self.stride) != {1}:
            raise ValueError(f"{name}: padding='same' needs a stride of 1, not {self.stride}")
        self.dilation: tuple[int, ...] = sizes_of(name, "dilation", dilation, space, 1)
        self.output_padding: tuple[int, ...] = sizes_of(name, "output_padding", output_padding, space, 0)
        modes = ("zeros",) if self._is_transposed else ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise ValueError(f"{name}: padding_mode is one of {modes}, not {shown(padding_mode)}")
        self.padding_mode = padding_mode
        outer, inner = (in_channels, out_channels) if self._is_transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *self.kernel_size)
        self._add_parameters(shape, (out_channels,) if bias else None, dtype)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not defaults."""
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        usual = (1,) * self._dims
        if self.padding != (0,) * self._dims:
            parts.append(f"padding={self.padding}")
        if self.dilation != usual:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self._dims:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(Convolution):
    _family = "conv"
    _sections = """
        Input ``(batch, in_channels, {space})``, or without the batch; output with ``out_channels``.

        Parameters
        ----------
        in_channels, out_channels
            The numbers of channels of input and output.
        kernel_size, stride, padding, dilation
            One integer, or one for each spatial dimension; see ``nn.functional.conv{dims}d``.
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
        >>> nn.Conv{dims}d(2, 4, 3)(tensor.ones((8, 2, {sizes[10,8,6]}))).shape
        (8, 4, {sizes[8,6,4]})
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
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias),
            *(0, padding_mode, device, dtype),
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution."""
        padding: str | int | tuple[int, ...] = self.padding
        if self.padding_mode != "zeros":
            input, padding = pad(input, self._pads(), self.padding_mode), 0
        return type(self)._function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _pads(self) -> list[int]:
        """Return the padding in the order of ``F.pad``: before and after each dimension, last one first."""
        geometry = geometry_of(
            *(type(self).__name__, self.kernel_size, self.stride, self.padding, self.dilation, self.groups)
        )
        return [n for pair in reversed(geometry.padding) for n in pair]


class _ConvTranspose(Convolution):
    _family = "conv_transpose"
    _is_transposed = True
    _sections = """
        Input ``(batch, in_channels, {space})``, or without the batch; output with ``out_channels``.

        Parameters
        ----------
        in_channels, out_channels
            The numbers of channels of input and output.
        kernel_size, stride, padding, dilation
            One integer, or one for each spatial dimension; see ``nn.functional.conv_transpose{dims}d``.
        output_padding
            The number of elements to add at the end of the output.
        groups
            The number of groups of channels. It must divide both numbers of channels.
        bias
            Whether to add a bias for each output channel.
        padding_mode
            ``"zeros"``.
        dtype
            The dtype of the parameters; float32 for None.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.ConvTranspose{dims}d(2, 4, 3, stride=2)(tensor.ones((8, 2, {sizes[10,5,2]}))).shape
        (8, 4, {sizes[21,11,5]})
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
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias),
            *(output_padding, padding_mode, device, dtype),
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution. `output_size` selects one of the possible sizes."""
        more = self.output_padding if output_size is None else self._more_for(input, tuple(output_size))
        return type(self)._function(
            *(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)
        )

    def _more_for(self, input: Tensor, wanted: tuple[int, ...]) -> tuple[int, ...]:
        wanted = wanted[-self._dims :]
        padding = sizes_of(type(self).__name__, "padding", self.padding, self._dims, 0)
        least = [
            (input.shape[i - self._dims] - 1) * self.stride[i]
            - 2 * padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(self._dims)
        ]
        more = tuple([n - low for n, low in zip(wanted, least, strict=False)])
        if len(more) != self._dims or any(
            n < 0 or n >= jump for n, jump in zip(more, self.stride, strict=True)
        ):
            raise ValueError(
                f"{type(self).__name__}: output_size is {wanted}; for this input the sizes must be at least "
                f"{tuple(least)}, and larger by less than the stride {self.stride}"
            )
        return more


class Conv1d(_Conv, dims=1):
    """Convolution over one dimension, of sequences ``(batch, in_channels, length)``."""


class Conv2d(_Conv, dims=2):
    """Convolution over two dimensions, of images ``(batch, in_channels, height, width)``."""


class Conv3d(_Conv, dims=3):
    """Convolution over three dimensions, of volumes ``(batch, in_channels, depth, height, width)``."""


class ConvTranspose1d(_ConvTranspose, dims=1):
    """Transposed convolution: it increases sizes as ``Conv1d`` with the same options reduces them."""


class ConvTranspose2d(_ConvTranspose, dims=2):
    """Transposed convolution: it increases sizes as ``Conv2d`` with the same options reduces them."""


class ConvTranspose3d(_ConvTranspose, dims=3):
    """Transposed convolution: it increases sizes as ``Conv3d`` with the same options reduces them."""
