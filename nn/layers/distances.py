"""Similarities and distances of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.layers.function_layers import FunctionLayer
from nn.module.options import options

if TYPE_CHECKING:
    from tensor import Tensor


class _Distance(FunctionLayer):
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return a number for each pair of vectors."""
        return self._computed(x1, x2)

    def extra_repr(self) -> str:
        """Return an empty text, as in PyTorch."""
        return ""


@options
class CosineSimilarity(_Distance):
    """Cosine similarity of vectors; see ``functional.cosine_similarity``.

    Parameters
    ----------
    dim
        The dimension of the vectors.
    eps
        The smallest norm to divide by.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([[1.0, 0.0]]), tensor.tensor([[0.0, 1.0]])
    >>> nn.CosineSimilarity()(x, y).tolist()
    [0.0]
    """

    dim: int = 1
    eps: float = 1e-8

    _function = F.cosine_similarity


@options
class PairwiseDistance(_Distance):
    """Norm of the difference of two vectors; see ``functional.pairwise_distance``.

    Parameters
    ----------
    p
        The degree of the norm.
    eps
        Added to each difference.
    keepdim
        Whether the result keeps the dimension of the vectors, with size 1.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([[1.0, 2.0]]), tensor.tensor([[4.0, 6.0]])
    >>> round(nn.PairwiseDistance()(x, y).item(), 4)
    5.0
    """

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False

    _function = F.pairwise_distance
