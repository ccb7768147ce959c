"""Linear layer that infers `in_features` from its first input."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.layers.linear import Linear
from nn.layers.rare.lazy_weighted import LazyWeighted
from nn.module.module import Module
from nn.module.options import option, options
from tensor import Tensor


@options
class LazyLinear(LazyWeighted, Linear):
    """``Linear`` that infers ``in_features`` from the last dimension of its first input.

    Parameters
    ----------
    out_features
        The size of an output.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.LazyLinear(2)
    >>> layer(tensor.ones((4, 3))).shape
    (4, 2)
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    in_features: int = option(init=False)

    cls_to_become: ClassVar[type[Module] | None] = Linear
    _inferred = "in_features"

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `in_features` from `input`, unless a state dict has set the shapes."""
        self.in_features = input.shape[-1]
        self._set_shapes(weight=(self.out_features, self.in_features), bias=(self.out_features,))
