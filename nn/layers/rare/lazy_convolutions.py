"""Convolution layers that infer `in_channels` from their first input."""

from __future__ import annotations

from typing import Any

from nn.layers.convolutions import (
    Conv1d,
    Conv2d,
    Conv3d,
    Convolution,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _Conv,
    _ConvTranspose,
)
from nn.layers.dimensions import LazyDimensional
from nn.layers.rare.lazy_weighted import LazyWeighted
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError


class _LazyConvolution(LazyWeighted, LazyDimensional, Convolution):
    _inferred = "in_channels"

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `in_channels` from `input`, unless a state dict has set the shapes."""
        space = self._dims
        if input.ndim not in (space + 1, space + 2):
            raise InvalidArgumentError(
                f"{type(self).__name__}: input must have shape (batch, channels, *sizes) or (channels, "
                f"*sizes), with {space} {'size' if space == 1 else 'sizes'}, not {input.shape}"
            )
        self.in_channels = input.shape[-space - 1]
        if self.has_uninitialized_params() and self.in_channels % self.groups:
            raise InvalidArgumentError(
                f"{type(self).__name__}: groups must divide the channels of the input, {self.in_channels}, "
                f"and {self.groups} does not"
            )
        outer, inner = self.out_channels, self.in_channels
        if self._is_transposed:
            outer, inner = inner, outer
        weight = (outer, inner // self.groups, *self.kernel_size)
        self._set_shapes(weight=weight, bias=(self.out_channels,))


@options
class _LazyConv(_LazyConvolution, _Conv):
    in_channels: int = option(init=False)

    _sections = ""
    _example = ("nn.{name}(2, 2)(tensor.ones((1, 3, {sizes[4]}))).shape", "(1, 2, {sizes[3]})")


@options
class _LazyConvTranspose(_LazyConvolution, _ConvTranspose):
    in_channels: int = option(init=False)

    _sections = ""
    _example = ("nn.{name}(2, 2)(tensor.ones((1, 3, {sizes[4]}))).shape", "(1, 2, {sizes[5]})")


class LazyConv1d(_LazyConv, Conv1d, dims=1):
    """``Conv1d`` that infers ``in_channels`` from its first input."""


class LazyConv2d(_LazyConv, Conv2d, dims=2):
    """``Conv2d`` that infers ``in_channels`` from its first input."""


class LazyConv3d(_LazyConv, Conv3d, dims=3):
    """``Conv3d`` that infers ``in_channels`` from its first input."""


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d, dims=1):
    """``ConvTranspose1d`` that infers ``in_channels`` from its first input."""


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d, dims=2):
    """``ConvTranspose2d`` that infers ``in_channels`` from its first input."""


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d, dims=3):
    """``ConvTranspose3d`` that infers ``in_channels`` from its first input."""
