"""Batch and instance norms that infer `num_features` from their first input."""

from __future__ import annotations

from typing import Any

from nn.layers.channel_norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    ChannelNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from nn.layers.dimensions import LazyDimensional
from nn.layers.rare.lazy_weighted import LazyWeighted
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError


@options
class _LazyNorm(LazyWeighted, LazyDimensional, ChannelNorm):
    num_features: int = option(init=False)

    _inferred = "num_features"
    _inferred_buffers = ("running_mean", "running_var")
    _sections = """
        Examples
        --------
        >>> import nn, tensor
        >>> layer = nn.{name}()
        >>> _ = layer(tensor.ones((2, 3, {sizes[4]})))
        >>> layer.num_features, isinstance(layer, nn.{name})
        (3, False)
    """

    def _channel_dim(self, input: Tensor) -> int:
        if input.ndim not in self._input_shapes:
            raise InvalidArgumentError(
                f"{type(self).__name__}: input must have shape {' or '.join(self._input_shapes.values())}, "
                f"not {input.shape}"
            )
        return 1 if self._input_shapes[input.ndim].startswith("(batch") else 0

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `num_features` from `input`, unless a state dict has set the shapes."""
        self.num_features = input.shape[self._channel_dim(input)]
        sizes = (self.num_features,)
        self._set_shapes(weight=sizes, bias=sizes, running_mean=sizes, running_var=sizes)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d, dims=1):
    """``BatchNorm1d`` that infers ``num_features`` from its first input."""


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d, dims=2):
    """``BatchNorm2d`` that infers ``num_features`` from its first input."""


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d, dims=3):
    """``BatchNorm3d`` that infers ``num_features`` from its first input."""


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d, dims=1):
    """``InstanceNorm1d`` that infers ``num_features`` from its first input."""


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d, dims=2):
    """``InstanceNorm2d`` that infers ``num_features`` from its first input."""


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d, dims=3):
    """``InstanceNorm3d`` that infers ``num_features`` from its first input."""
