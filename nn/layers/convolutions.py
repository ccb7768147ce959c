"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar
from typing import TYPE_CHECKING, Any, ClassVar

from nn.functional.convolutions import geometry_of, sizes_of
from nn.functional.padding import pad
from nn.layers.dimensions import Dimensional
from nn.layers.weighted import Uniform
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import DtypeLike, shown

if TYPE_CHECKING:
    from nn.layers.weighted import Shape


class Convolution(Uniform, Dimensional):
    """Base class of all convolution layers: options, parameters, initial values."""

    _is_transposed: ClassVar[bool] = False
    # The possible values of `padding_mode`.
    _modes: ClassVar[tuple[str, ...]]
    _sizes = ("in_channels", "out_channels")
    _sections = "Input ``(batch, in_channels, {space})``, or without the batch; output with ``out_channels``."
    _texts: ClassVar = {
        **Uniform._texts,
        **dict.fromkeys(_sizes, "The numbers of channels of input and output."),
        "kernel_size": "The sizes of the kernel: one integer, or one for each spatial dimension.",
        "groups": "The number of groups of channels. It must divide both numbers of channels.",
        "bias": "Whether to add a bias for each output channel.",
    }

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str

    def _set_options(self, given: dict[str, Any]) -> None:
        name = type(self).__name__
        given.setdefault("output_padding", 0)
        padding, mode = given["padding"], given["padding_mode"]
        leasts = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
        for what, least in leasts.items():
            if what != "padding" or not isinstance(padding, str):
                given[what] = sizes_of(name, what, given[what], self._dims, least)
        if isinstance(padding, str) and (padding not in ("valid", "same") or self._is_transposed):
            names = "" if self._is_transposed else "'valid', 'same' or "
            raise ValueError(f"{name}: padding must be {names}integers, not {shown(padding)}")
        if padding == "same" and set(given["stride"]) != {1}:
            raise ValueError(f"{name}: padding='same' requires a stride of 1, not {given['stride']}")
        if mode not in self._modes:
            modes = " or ".join(map(repr, self._modes))
            raise ValueError(f"{name}: padding_mode must be {modes}, not {shown(mode)}")
        super()._set_options(given)

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        ins, outs, groups = self.in_channels, self.out_channels, self.groups
        if type(groups) is not int or groups < 1 or ins % groups or outs % groups:
            raise ValueError(
                f"{type(self).__name__}: groups must divide in_channels, {ins}, and out_channels, {outs}, "
                f"and {shown(groups)} does not"
            )
        outer, inner = (ins, outs) if self._is_transposed else (outs, ins)
        weight = (outer, inner // groups, *self.kernel_size)
        return {"weight": weight, "bias": (outs,) if has_bias else None}

    def extra_repr(self) -> str:
        """Return the channels, kernel size and stride, and the other options that are not defaults."""
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


@options
class _Options(Convolution):
    """Base class with the options that all convolution layers have first, in this order."""

    in_channels: int
    out_channels: int
    _kernel_size: InitVar[int | Sequence[int]] = option(alias="kernel_size")
    _stride: InitVar[int | Sequence[int]] = option(default=1, alias="stride")


@options
class _Conv(_Options):
    _padding: InitVar[str | int | Sequence[int]] = option(default=0, alias="padding")
    _dilation: InitVar[int | Sequence[int]] = option(default=1, alias="dilation")
    groups: int = 1
    _bias: InitVar[bool] = option(default=True, alias="bias")
    padding_mode: str = "zeros"
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    _family = "conv"
    _modes = ("zeros", "reflect", "replicate", "circular")
    _texts: ClassVar = {
        **Convolution._texts,
        "padding_mode": (
            'The values of the padding: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``; see\n'
            "    ``nn.functional.pad``."
        ),
    }
    _example = ("nn.{name}(2, 4, 3)(tensor.ones((8, 2, {sizes[10,8,6]}))).shape", "(8, 4, {sizes[8,6,4]})")

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution."""
        padding: str | int | tuple[int, ...] = self.padding
        if self.padding_mode != "zeros":
            input, padding = pad(input, self._pads(), self.padding_mode), 0
        return type(self)._function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _pads(self) -> list[int]:
        """Return the padding as ``F.pad`` takes it: before and after each dimension, last dimension first."""
        geometry = geometry_of(
            *(type(self).__name__, self.kernel_size, self.stride, self.padding, self.dilation, self.groups)
        )
        return [n for pair in reversed(geometry.padding) for n in pair]


@options
class _ConvTranspose(_Options):
    _padding: InitVar[int | Sequence[int]] = option(default=0, alias="padding")
    _output_padding: InitVar[int | Sequence[int]] = option(default=0, alias="output_padding")
    groups: int = 1
    _bias: InitVar[bool] = option(default=True, alias="bias")
    _dilation: InitVar[int | Sequence[int]] = option(default=1, alias="dilation")
    padding_mode: str = "zeros"
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    _family = "conv_transpose"
    _is_transposed = True
    _modes = ("zeros",)
    _texts: ClassVar = {**Convolution._texts, "padding_mode": '``"zeros"``.'}
    _example = (
        "nn.{name}(2, 4, 3, stride=2)(tensor.ones((8, 2, {sizes[10,5,2]}))).shape",
        "(8, 4, {sizes[21,11,5]})",
    )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution. `output_size` selects one of the possible output sizes."""
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
            most = tuple([low + jump - 1 for low, jump in zip(least, self.stride, strict=True)])
            raise ValueError(
                f"{type(self).__name__}: for this input, output_size must be from {tuple(least)} to {most}, "
                f"not {wanted}"
            )
        return more


class Conv1d(_Conv, dims=1):
    """Convolution over one dimension, of sequences ``(batch, in_channels, length)``."""


class Conv2d(_Conv, dims=2):
    """Convolution over two dimensions, of images ``(batch, in_channels, height, width)``."""


class Conv3d(_Conv, dims=3):
    """Convolution over three dimensions, of volumes ``(batch, in_channels, depth, height, width)``."""


class ConvTranspose1d(_ConvTranspose, dims=1):
    """Transposed convolution: the gradient of ``Conv1d`` with respect to its input."""


class ConvTranspose2d(_ConvTranspose, dims=2):
    """Transposed convolution: the gradient of ``Conv2d`` with respect to its input."""


class ConvTranspose3d(_ConvTranspose, dims=3):
    """Transposed convolution: the gradient of ``Conv3d`` with respect to its input."""
