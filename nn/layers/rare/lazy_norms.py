"""Batch and instance norms that infer `num_features` from their first input."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.layers.channel_norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    ChannelNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from nn.layers.rare.lazy_weighted import forget_shapes, set_shapes
from nn.module.lazy import LazyModuleMixin
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError


class _LazyNorm(LazyModuleMixin, ChannelNorm):
    """Base class of lazy norms."""

    def reset_parameters(self) -> None:
        """Initialize the parameters, if they have shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()

    def _channel_dim(self, input: Tensor) -> int:
        if input.ndim not in self._input_shapes:
            raise InvalidArgumentError(
                f"{type(self).__name__}: input must have shape {' or '.join(self._input_shapes.values())}, "
                f"not {input.shape}"
            )
        return 1 if self._input_shapes[input.ndim].startswith("(batch") else 0

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `num_features` from `input`, unless a state dict has set the shapes."""
        self.num_features: int = input.shape[self._channel_dim(input)]
        if self.has_uninitialized_params():
            sizes = (self.num_features,)
            set_shapes(self, weight=sizes, bias=sizes, running_mean=sizes, running_var=sizes)
            self.reset_parameters()


@set_module("nn")
class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """``BatchNorm1d`` that infers ``num_features`` from its first input.

    Parameters
    ----------
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
    >>> layer = nn.LazyBatchNorm1d()
    >>> _ = layer(tensor.ones((2, 3, 4)))
    >>> layer.num_features, isinstance(layer, nn.LazyBatchNorm1d)
    (3, False)
    """

    cls_to_become: ClassVar[type[Module] | None] = BatchNorm1d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        BatchNorm1d.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        forget_shapes(self, dtype, "running_mean", "running_var")


@set_module("nn")
class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """``BatchNorm2d`` that infers ``num_features`` from its first input.

    Parameters
    ----------
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
    >>> layer = nn.LazyBatchNorm2d()
    >>> _ = layer(tensor.ones((2, 3, 4, 4)))
    >>> layer.num_features, isinstance(layer, nn.LazyBatchNorm2d)
    (3, False)
    """

    cls_to_become: ClassVar[type[Module] | None] = BatchNorm2d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        BatchNorm2d.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        forget_shapes(self, dtype, "running_mean", "running_var")


@set_module("nn")
class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """``BatchNorm3d`` that infers ``num_features`` from its first input.

    Parameters
    ----------
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
    >>> layer = nn.LazyBatchNorm3d()
    >>> _ = layer(tensor.ones((2, 3, 4, 4, 4)))
    >>> layer.num_features, isinstance(layer, nn.LazyBatchNorm3d)
    (3, False)
    """

    cls_to_become: ClassVar[type[Module] | None] = BatchNorm3d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        BatchNorm3d.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        forget_shapes(self, dtype, "running_mean", "running_var")


@set_module("nn")
class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """``InstanceNorm1d`` that infers ``num_features`` from its first input.

    Parameters
    ----------
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
    >>> nn.LazyInstanceNorm1d(3)(tensor.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    cls_to_become: ClassVar[type[Module] | None] = InstanceNorm1d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        InstanceNorm1d.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        forget_shapes(self, dtype, "running_mean", "running_var")


@set_module("nn")
class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """``InstanceNorm2d`` that infers ``num_features`` from its first input.

    Parameters
    ----------
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
    >>> nn.LazyInstanceNorm2d(3)(tensor.ones((2, 3, 4, 5))).shape
    (2, 3, 4, 5)
    """

    cls_to_become: ClassVar[type[Module] | None] = InstanceNorm2d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        InstanceNorm2d.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        forget_shapes(self, dtype, "running_mean", "running_var")


@set_module("nn")
class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """``InstanceNorm3d`` that infers ``num_features`` from its first input.

    Parameters
    ----------
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
    >>> nn.LazyInstanceNorm3d(3)(tensor.ones((2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    """

    cls_to_become: ClassVar[type[Module] | None] = InstanceNorm3d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        InstanceNorm3d.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        forget_shapes(self, dtype, "running_mean", "running_var")
