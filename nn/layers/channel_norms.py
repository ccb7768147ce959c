"""Batch normalization and instance normalization."""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar
from typing import TYPE_CHECKING, ClassVar

import tensor as tn
from nn import functional as F
from nn import init
from nn.layers.dimensions import Dimensional
from nn.layers.weighted import Affine
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import DtypeLike, InvalidArgumentError, is_recomputing, writing

if TYPE_CHECKING:
    from nn.layers.weighted import Shape


@options
class ChannelNorm(Affine, Dimensional):
    """Base class of batch and instance norms: parameters, running statistics, options."""

    # The possible shapes of inputs, by their number of dimensions.
    _input_shapes: ClassVar[dict[int, str]]

    num_features: int
    eps: float = 1e-5
    momentum: float | None = 0.1
    affine: bool = True
    track_running_stats: bool = True
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None
    _: KW_ONLY
    _bias: InitVar[bool] = option(default=True, alias="bias")

    running_mean: Tensor | None = option(init=False)
    running_var: Tensor | None = option(init=False)
    num_batches_tracked: Tensor | None = option(init=False)

    _sizes = ("num_features",)
    _texts: ClassVar = {
        "num_features": "The number of channels.",
        "eps": "Added to the variance.",
        "momentum": "The weight of a batch in the running mean and variance.",
        "affine": "Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.",
        "dtype": "The dtype of parameters and buffers; float32 for None.",
        "bias": "Whether the affine part has a bias.",
    }

    def _add_parameters(self, shapes: dict[str, Shape | None], dtype: DtypeLike | None) -> None:
        super()._add_parameters(shapes, dtype)
        sizes, tracks = (self.num_features,), self.track_running_stats
        self.register_buffer("running_mean", tn.zeros(sizes, dtype=dtype) if tracks else None)
        self.register_buffer("running_var", tn.ones(sizes, dtype=dtype) if tracks else None)
        self.register_buffer("num_batches_tracked", tn.zeros((), dtype="int64") if tracks else None)

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        shape = (self.num_features,) if self.affine else None
        return {"weight": shape, "bias": shape if has_bias else None}

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1, and the number of batches to 0."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                init.constant_(buffer, value)

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _require_channels(self, input: Tensor, dim: int) -> None:
        """Raise an error unless `input` has one of this layer's shapes, with the channels at `dim`."""
        shape = input.shape
        if len(shape) not in self._input_shapes or shape[dim] != self.num_features:
            shapes = [
                text.replace("channels", str(self.num_features)) for text in self._input_shapes.values()
            ]
            raise InvalidArgumentError(
                f"{type(self).__name__}: input must have shape {' or '.join(shapes)}, not {shape}"
            )

    def extra_repr(self) -> str:
        """Return the size and the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(ChannelNorm):
    _sections = """
        In training it uses the mean and variance of the batch, and updates the running statistics. In
        evaluation it uses the running statistics.

        Examples
        --------
        >>> import nn, tensor
        >>> layer = nn.BatchNorm{dims}d(3)
        >>> layer(tensor.ones((2, 3, {sizes[4,5,6]}))).shape
        (2, 3, {sizes[4,5,6]})
        >>> layer.num_batches_tracked.item()
        1
    """
    _texts: ClassVar = {
        **ChannelNorm._texts,
        "momentum": (
            "The weight of a batch in the running mean and variance; None for the cumulative average."
        ),
        "track_running_stats": (
            "Whether to keep a running mean and variance. If not, evaluation uses the statistics of the\n"
            "    batch."
        ),
    }

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift; in training, update the running mean and variance."""
        self._require_channels(input, 1)
        by_batch = self.training or self.running_mean is None
        # `track_running_stats` may have been set after the constructor.
        updates = self.training and self.track_running_stats
        tracked = self.num_batches_tracked if updates else None
        momentum = 0.0 if self.momentum is None else self.momentum
        if tracked is not None and self.momentum is None:
            momentum = 1 / (tracked.item() + 1)
        mean, var = (self.running_mean, self.running_var) if updates or not by_batch else (None, None)
        out = F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)
        if tracked is not None and not is_recomputing():
            with writing(tracked) as count:
                count += 1
        return out


@options
class _InstanceNorm(ChannelNorm):
    affine: bool = False
    track_running_stats: bool = False

    _example = ("nn.{name}(3)(tensor.ones((2, 3, {sizes[4,5,6]}))).shape", "(2, 3, {sizes[4,5,6]})")
    _texts: ClassVar = {
        **ChannelNorm._texts,
        "track_running_stats": (
            "Whether to keep a running mean and variance for evaluation. If not, evaluation uses the\n"
            "    statistics of each sample."
        ),
    }

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift; in training, update the running mean and variance, if any."""
        is_batched = len(input.shape) == max(self._input_shapes)
        self._require_channels(input, 1 if is_batched else 0)
        out = F.instance_norm(
            input if is_batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out if is_batched else out.squeeze(0)


class BatchNorm1d(_BatchNorm, dims=1):
    """Normalizes each channel over the other dimensions.

    Input and output are ``(batch, num_features)`` or ``(batch, num_features, length)``. See Ioffe and
    Szegedy, 2015.
    """

    _input_shapes: ClassVar = {2: "(batch, channels)", 3: "(batch, channels, length)"}


class BatchNorm2d(_BatchNorm, dims=2):
    """Normalizes each channel over the other dimensions.

    Input and output are ``(batch, num_features, height, width)``.
    """

    _input_shapes: ClassVar = {4: "(batch, channels, height, width)"}


class BatchNorm3d(_BatchNorm, dims=3):
    """Normalizes each channel over the other dimensions.

    Input and output are ``(batch, num_features, depth, height, width)``.
    """

    _input_shapes: ClassVar = {5: "(batch, channels, depth, height, width)"}


class InstanceNorm1d(_InstanceNorm, dims=1):
    """Normalizes each channel of each sample of ``(batch, num_features, length)``.

    The input may also have no batch. See Ulyanov et al., 2016.
    """

    _input_shapes: ClassVar = {3: "(batch, channels, length)", 2: "(channels, length)"}


class InstanceNorm2d(_InstanceNorm, dims=2):
    """Normalizes each channel of each sample of ``(batch, num_features, height, width)``."""

    _input_shapes: ClassVar = {4: "(batch, channels, height, width)", 3: "(channels, height, width)"}


class InstanceNorm3d(_InstanceNorm, dims=3):
    """Normalizes each channel of each sample of ``(batch, num_features, depth, height, width)``."""

    _input_shapes: ClassVar = {
        5: "(batch, channels, depth, height, width)",
        4: "(channels, depth, height, width)",
    }
