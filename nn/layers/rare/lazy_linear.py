"""Linear layer that infers `in_features` from its first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nn.layers.linear import Linear
from nn.layers.rare.lazy_weighted import LazyWeighted
from nn.module.module import Module

if TYPE_CHECKING:
    from tensor import Tensor
    from tensor.lowlevel import DtypeLike


class LazyLinear(LazyWeighted, Linear):
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
        self, out_features: int, bias: bool = True, device: str | None = None, dtype: DtypeLike | None = None
    ) -> None:
        super().__init__(0, out_features, bias, device, dtype)
        self._forget_shapes(dtype)

    def initialize_parameters(self, input: Tensor, *_: Any) -> None:
        """Set `in_features` from `input`, unless a state dict has set the shapes."""
        self.in_features: int = input.shape[-1]
        self._set_shapes(weight=(self.out_features, self.in_features), bias=(self.out_features,))
