"""Linear layer that infers `in_features` from its first input."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.layers.linear import Linear
from nn.layers.rare.lazy_weighted import forget_shapes, set_shapes
from nn.module.lazy import LazyModuleMixin
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import DtypeLike


@set_module("nn")
class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` that infers ``in_features`` from the last dimension of its first input.

    Parameters
    ----------
    out_features
        The size of an output.
    bias
        Whether to add a bias.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.LazyLinear(2)
    >>> layer(tensor.ones((4, 3))).shape
    (4, 2)
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become: ClassVar[type[Module] | None] = Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(0, out_features, bias, device, dtype)
        forget_shapes(self, dtype)

    def reset_parameters(self) -> None:
        """Initialize the parameters, if they have shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `in_features` from `input`, unless a state dict has set the shapes."""
        self.in_features: int = input.shape[-1]
        if self.has_uninitialized_params():
            set_shapes(self, weight=(self.out_features, self.in_features), bias=(self.out_features,))
            self.reset_parameters()
