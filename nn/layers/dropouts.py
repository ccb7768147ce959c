"""Dropout of elements, dropout of channels, and alpha dropout."""

from __future__ import annotations

from nn import functional as F
from nn.functional.checks import check_probability
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor


class _Dropout(Module):
    """Base class of dropouts, with their options."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, "p", p)
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the options."""
        return f"p={self.p}, inplace={self.inplace}"


@set_module("nn")
class Dropout(_Dropout):
    """Dropout: sets each element to 0 with probability `p` in training, and scales others by 1 / (1 - p).

    Parameters
    ----------
    p
        The probability, from 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout(0.9).eval()(tensor.ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return F.dropout(input, self.p, self.training, self.inplace)


@set_module("nn")
class Dropout1d(_Dropout):
    """Channel dropout: sets whole channels of sequences to 0 with probability `p` in training.

    The other channels are scaled by 1 / (1 - p). Input ``(batch, channels, length)``, or without the
    batch; see ``nn.functional.dropout1d``.

    Parameters
    ----------
    p
        The probability, from 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout1d(1.0)(tensor.ones((1, 3, 2))).sum().item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


@set_module("nn")
class Dropout2d(_Dropout):
    """Channel dropout: sets whole channels of images to 0 with probability `p` in training.

    The other channels are scaled by 1 / (1 - p). Input ``(batch, channels, height, width)``, or without the
    batch; see ``nn.functional.dropout2d``.

    Parameters
    ----------
    p
        The probability, from 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout2d(1.0)(tensor.ones((1, 3, 2, 2))).sum().item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


@set_module("nn")
class Dropout3d(_Dropout):
    """Channel dropout: sets whole channels of volumes to 0 with probability `p` in training.

    The other channels are scaled by 1 / (1 - p). Input ``(batch, channels, depth, height, width)``, or
    without the
    batch; see ``nn.functional.dropout3d``.

    Parameters
    ----------
    p
        The probability, from 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout3d(1.0)(tensor.ones((1, 3, 2, 2, 2))).sum().item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


@set_module("nn")
class AlphaDropout(_Dropout):
    """Alpha dropout: replaces elements with probability `p` in training, and keeps mean 0 and variance 1.

    For networks with SELU (Klambauer et al., 2017). Inputs may have any shape.

    Parameters
    ----------
    p
        The probability, from 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.AlphaDropout(0.9).eval()(tensor.ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


@set_module("nn")
class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels with probability `p` in training.

    Input ``(batch, channels, *)``.

    Parameters
    ----------
    p
        The probability, from 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.FeatureAlphaDropout(0.9).eval()(tensor.ones((1, 3))).tolist()
    [[1.0, 1.0, 1.0]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
