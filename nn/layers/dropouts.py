"""Dropout of elements, dropout of channels, and alpha dropout."""

from __future__ import annotations

from typing import Any, ClassVar

from nn import functional as F
from nn.functional.checks import check_probability
from nn.layers.dimensions import Dimensional
from nn.layers.function_layers import FunctionLayer
from nn.module.docstrings import example
from nn.module.options import options
from tensor import Tensor


@options
class _Dropout(FunctionLayer):
    p: float = 0.5
    inplace: bool = False

    _texts: ClassVar = {"p": "The probability, from 0 to 1.", "inplace": "Write over the input."}

    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options(given)
        check_probability(type(self).__name__, "p", self.p)

    def forward(self, input: Tensor) -> Tensor:
        """Apply a random mask; in evaluation, return the input itself."""
        return type(self)._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


@options
@example("nn.Dropout(0.9).eval()(tensor.ones((3,))).tolist()", [1.0, 1.0, 1.0])
class Dropout(_Dropout, function=F.dropout):
    """Dropout: sets each element to 0 with probability `p` in training, and scales others by 1 / (1 - p)."""


class _ChannelDropout(_Dropout, Dimensional):
    _family = "dropout"
    _sections = """
        The other channels are scaled by 1 / (1 - p). Input ``(batch, channels, {space})``, or without the
        batch; see ``nn.functional.dropout{dims}d``.
    """
    _example = ("nn.{name}(1.0)(tensor.ones((1, 3, {sizes[2]}))).sum().item()", "0.0")


class Dropout1d(_ChannelDropout, dims=1):
    """Channel dropout: sets whole channels of sequences to 0 with probability `p` in training."""


class Dropout2d(_ChannelDropout, dims=2):
    """Channel dropout: sets whole channels of images to 0 with probability `p` in training."""


class Dropout3d(_ChannelDropout, dims=3):
    """Channel dropout: sets whole channels of volumes to 0 with probability `p` in training."""


@options
@example("nn.AlphaDropout(0.9).eval()(tensor.ones((3,))).tolist()", [1.0, 1.0, 1.0])
class AlphaDropout(_Dropout, function=F.alpha_dropout):
    """Alpha dropout: replaces elements with probability `p` in training, and keeps mean 0 and variance 1.

    For networks with SELU (Klambauer et al., 2017). Inputs may have any shape.
    """


@options
@example("nn.FeatureAlphaDropout(0.9).eval()(tensor.ones((1, 3))).tolist()", [[1.0, 1.0, 1.0]])
class FeatureAlphaDropout(_Dropout, function=F.feature_alpha_dropout):
    """Alpha dropout of whole channels with probability `p` in training.

    Input ``(batch, channels, *)``.
    """
