"""Layers of dropout: of elements, of whole channels, and so that mean and variance stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn.functional.checks import check_probability
from nn.module.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor


class _Dropout(Module):
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Draw a mask and apply it; in evaluation, return the input itself."""
        return type(self)._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes each element with probability `p` in training, and scales the others by 1 / (1 - p).

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout(0.9).eval()(tensor.ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    _function = F.dropout


class Dropout1d(_Dropout):
    """Zeroes whole channels with probability `p` in training, and scales the others by 1 / (1 - p).

    Input ``(batch, channels, length)`` or ``(channels, length)``.

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout1d(1.0)(tensor.ones((3, 2))).sum().item()
    0.0
    """

    _function = F.dropout1d


class Dropout2d(_Dropout):
    """Zeroes whole channels with probability `p` in training, and scales the others by 1 / (1 - p).

    Input ``(batch, channels, height, width)``.

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout2d(1.0)(tensor.ones((1, 3, 2, 2))).sum().item()
    0.0
    """

    _function = F.dropout2d


class Dropout3d(_Dropout):
    """Zeroes whole channels with probability `p` in training, and scales the others by 1 / (1 - p).

    Input ``(batch, channels, depth, height, width)``, or that without the batch.

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout3d(1.0)(tensor.ones((1, 3, 2, 2, 2))).sum().item()
    0.0
    """

    _function = F.dropout3d


class AlphaDropout(_Dropout):
    """Replaces elements with probability `p` in training, so that mean 0 and variance 1 stay.

    For networks of SELU (Klambauer et al., 2017). Any shape.

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AlphaDropout(0.9).eval()(tensor.ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    _function = F.alpha_dropout


class FeatureAlphaDropout(_Dropout):
    """Replaces whole channels with probability `p` in training, so that mean 0 and variance 1 stay.

    Input ``(batch, channels, *)``.

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.FeatureAlphaDropout(0.9).eval()(tensor.ones((1, 3))).tolist()
    [[1.0, 1.0, 1.0]]
    """

    _function = F.feature_alpha_dropout
