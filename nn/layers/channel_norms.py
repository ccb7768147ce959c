"""Batch normalization and instance normalization."""

from __future__ import annotations

from typing import ClassVar

import tensor as tn
from nn import functional as F
from nn import init
from nn.layers.weighted import init_affine, new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError
from tensor.autograd.checkpointing import is_recomputing
from tensor.core.tensor import writing


class ChannelNorm(Module):
    """Base class of batch and instance norms: parameters, running statistics, options."""

    # The possible shapes of inputs, by their number of dimensions.
    _input_shapes: ClassVar[dict[int, str]]

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: str | None,
        dtype: DtypeLike | None,
        bias: bool,
    ) -> None:
        super().__init__()
        require_cpu(device)
        require_size(type(self).__name__, "num_features", num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        sizes = (num_features,)
        self.register_parameter("weight", new_parameter(sizes, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(sizes, dtype) if affine and bias else None)
        tracks = track_running_stats
        self.register_buffer("running_mean", tn.zeros(sizes, dtype=dtype) if tracks else None)
        self.register_buffer("running_var", tn.ones(sizes, dtype=dtype) if tracks else None)
        self.register_buffer("num_batches_tracked", tn.zeros((), dtype="int64") if tracks else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1, and the number of batches to 0."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                init.constant_(buffer, value)

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        init_affine(self.weight, self.bias)

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
    """Base class of batch norms: their defaults, and the call."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

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


class _InstanceNorm(ChannelNorm):
    """Base class of instance norms: their defaults, and the call."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

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


@set_module("nn")
class BatchNorm1d(_BatchNorm):
    """Normalizes each channel over the other dimensions.

    Input and output are ``(batch, num_features)`` or ``(batch, num_features, length)``. See Ioffe and
    Szegedy, 2015.

    In training it uses the mean and variance of the batch, and updates the running statistics. In
    evaluation it uses the running statistics.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a batch in the running mean and variance; None for the cumulative average.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.
    track_running_stats
        Whether to keep a running mean and variance. If not, evaluation uses the statistics of the
        batch.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.BatchNorm1d(3)
    >>> layer(tensor.ones((2, 3, 4))).shape
    (2, 3, 4)
    >>> layer.num_batches_tracked.item()
    1
    """

    _input_shapes: ClassVar = {2: "(batch, channels)", 3: "(batch, channels, length)"}


@set_module("nn")
class BatchNorm2d(_BatchNorm):
    """Normalizes each channel over the other dimensions.

    Input and output are ``(batch, num_features, height, width)``.

    In training it uses the mean and variance of the batch, and updates the running statistics. In
    evaluation it uses the running statistics.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a batch in the running mean and variance; None for the cumulative average.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.
    track_running_stats
        Whether to keep a running mean and variance. If not, evaluation uses the statistics of the
        batch.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.BatchNorm2d(3)
    >>> layer(tensor.ones((2, 3, 4, 5))).shape
    (2, 3, 4, 5)
    >>> layer.num_batches_tracked.item()
    1
    """

    _input_shapes: ClassVar = {4: "(batch, channels, height, width)"}


@set_module("nn")
class BatchNorm3d(_BatchNorm):
    """Normalizes each channel over the other dimensions.

    Input and output are ``(batch, num_features, depth, height, width)``.

    In training it uses the mean and variance of the batch, and updates the running statistics. In
    evaluation it uses the running statistics.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a batch in the running mean and variance; None for the cumulative average.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.
    track_running_stats
        Whether to keep a running mean and variance. If not, evaluation uses the statistics of the
        batch.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.BatchNorm3d(3)
    >>> layer(tensor.ones((2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    >>> layer.num_batches_tracked.item()
    1
    """

    _input_shapes: ClassVar = {5: "(batch, channels, depth, height, width)"}


@set_module("nn")
class InstanceNorm1d(_InstanceNorm):
    """Normalizes each channel of each sample of ``(batch, num_features, length)``.

    The input may also have no batch. See Ulyanov et al., 2016.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a batch in the running mean and variance.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.
    track_running_stats
        Whether to keep a running mean and variance for evaluation. If not, evaluation uses the
        statistics of each sample.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.InstanceNorm1d(3)(tensor.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    _input_shapes: ClassVar = {3: "(batch, channels, length)", 2: "(channels, length)"}


@set_module("nn")
class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each sample of ``(batch, num_features, height, width)``.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a batch in the running mean and variance.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.
    track_running_stats
        Whether to keep a running mean and variance for evaluation. If not, evaluation uses the
        statistics of each sample.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.InstanceNorm2d(3)(tensor.ones((2, 3, 4, 5))).shape
    (2, 3, 4, 5)
    """

    _input_shapes: ClassVar = {4: "(batch, channels, height, width)", 3: "(channels, height, width)"}


@set_module("nn")
class InstanceNorm3d(_InstanceNorm):
    """Normalizes each channel of each sample of ``(batch, num_features, depth, height, width)``.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a batch in the running mean and variance.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift the result.
    track_running_stats
        Whether to keep a running mean and variance for evaluation. If not, evaluation uses the
        statistics of each sample.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.InstanceNorm3d(3)(tensor.ones((2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    """

    _input_shapes: ClassVar = {
        5: "(batch, channels, depth, height, width)",
        4: "(channels, depth, height, width)",
    }
