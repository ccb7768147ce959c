"""Smooth activation layers and gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.layers.activations import Activation, AlongDimension, AlphaActivation, InPlaceActivation
from nn.module.module import Module
from tensor.lowlevel import InvalidArgumentError

if TYPE_CHECKING:
    from tensor import Tensor


class CELU(AlphaActivation):
    """Smooth ELU: x for positive x, else ``alpha * (exp(x / alpha) - 1)`` (Barron, 2017).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CELU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    _function = F.celu


class SELU(InPlaceActivation):
    """Scaled ELU of self-normalizing networks (Klambauer et al., 2017).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.SELU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    _function = F.selu


class Mish(InPlaceActivation):
    """Mish: ``x * tanh(softplus(x))`` (Misra, 2019).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Mish()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    _function = F.mish


class GLU(AlongDimension):
    """Gated linear unit: the first half along `dim` times the sigmoid of the second (Dauphin et al., 2016).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.GLU()(tensor.tensor([3.0, 0.0])).tolist()
    [1.5]
    """

    _function = F.glu

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)


class LogSigmoid(Activation):
    """Logarithm of the sigmoid, without overflow.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LogSigmoid()(tensor.tensor([-1000.0])).tolist()
    [-1000.0]
    """

    _function = F.logsigmoid


class Softsign(Activation):
    """Softsign: x / (1 + abs(x)).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softsign()(tensor.tensor([-1.0])).tolist()
    [-0.5]
    """

    _function = F.softsign


class Tanhshrink(Activation):
    """Tanh shrinkage: x - tanh(x).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Tanhshrink()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    _function = F.tanhshrink


class Softmin(AlongDimension):
    """Softmin: ``softmax(-x)`` along `dim`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmin(dim=0)(tensor.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    _function = F.softmin


class Softmax2d(Module):
    """Softmax over the channels of ``(batch, channels, height, width)``, or without the batch.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmax2d()(tensor.ones((2, 1, 1))).flatten().tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax over the channels."""
        if len(input.shape) not in (3, 4):
            raise InvalidArgumentError(
                "Softmax2d: input has shape (batch, channels, height, width), or that without the batch, "
                f"not {input.shape}"
            )
        return F.softmax(input, dim=-3)
