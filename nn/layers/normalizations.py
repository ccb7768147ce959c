"""Normalisation layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensor as tn
from nn import functional as F
from nn import init
from nn.layers.maps import new_parameter, require_size
from nn.module.module import Module
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError, is_recomputing, require_cpu, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn.module.parameter import Parameter
    from tensor.lowlevel import DtypeLike


def _as_sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Normalises each sample over its last dimensions (Ba et al., 2016).

    Input and output ``(*, *normalized_shape)``.

    Parameters
    ----------
    normalized_shape
        The sizes of the dimensions to normalise over.
    eps
        Added to the variance.
    elementwise_affine
        Whether a weight, from 1, scales the result.
    bias
        Whether a bias, from 0, is added too.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.LayerNorm(2)(tensor.tensor([[1.0, 3.0]]))
    >>> [round(v, 3) for v in y[0].tolist()]
    [-1.0, 1.0]
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        self.normalized_shape: tuple[int, ...] = _as_sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        has_bias = elementwise_affine and bias
        sizes = self.normalized_shape
        self.register_parameter("weight", new_parameter(sizes, dtype) if elementwise_affine else None)
        self.register_parameter("bias", new_parameter(sizes, dtype) if has_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, scale and shift."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides each sample by the root of its mean square over its last dimensions (Zhang and Sennrich, 2019).

    Parameters
    ----------
    normalized_shape
        The sizes of the dimensions to normalise over.
    eps
        Added to the mean square; the dtype's machine epsilon for None.
    elementwise_affine
        Whether a weight, from 1, scales the result.
    dtype
        The dtype of the weight; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.RMSNorm(2)(tensor.tensor([3.0, 3.0])).tolist()
    [1.0, 1.0]
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _as_sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        sizes = self.normalized_shape
        self.register_parameter("weight", new_parameter(sizes, dtype) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise and scale."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class BatchNorm1d(Module):
    """Normalises each channel over the batch (Ioffe and Szegedy, 2015).

    Input and output ``(batch, num_features)`` or ``(batch, num_features, length)``. In training by the
    batch's own mean and variance, which go into the running ones; in evaluation by the running ones.

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The share of a batch in the running figures; None for their plain average.
    affine
        Whether a weight, from 1, and a bias, from 0, scale and shift the result.
    track_running_stats
        Whether there are running figures; without them the batch's own are used in evaluation too.
    dtype
        The dtype of parameters and buffers; float32 for None.
    bias
        Whether the affine part has a bias.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.BatchNorm1d(1)
    >>> [round(v, 3) for v in layer(tensor.tensor([[1.0], [3.0]]))[:, 0].tolist()]
    [-1.0, 1.0]
    >>> layer.num_batches_tracked.item()
    1
    """

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DtypeLike | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        require_size("BatchNorm1d", "num_features", num_features)
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
        """Set the running mean to 0 and the running variance to 1."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                init.constant_(buffer, value)

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and the running figures to their start."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, scale and shift; in training, take the batch into the running figures."""
        shape = input.shape
        if len(shape) not in (2, 3) or shape[1] != self.num_features:
            raise InvalidArgumentError(
                f"BatchNorm1d: input has shape (batch, {self.num_features}) or (batch, "
                f"{self.num_features}, length), not {shape}"
            )
        by_batch = self.training or self.running_mean is None
        tracked = self.num_batches_tracked if self.training else None
        momentum = 0.0 if self.momentum is None else self.momentum
        if tracked is not None and self.momentum is None:
            momentum = 1 / (tracked.item() + 1)
        mean, var = (self.running_mean, self.running_var) if self.training or not by_batch else (None, None)
        out = F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)
        if tracked is not None and not is_recomputing():
            with writing(tracked) as count:
                count += 1
        return out

    def extra_repr(self) -> str:
        """Return the size and the settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )
