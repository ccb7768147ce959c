"""Similarities and distances of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.module.module import Module

if TYPE_CHECKING:
    from tensor import Tensor


class CosineSimilarity(Module):
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

    def __init__(
        self,
        dim: int = 1,
        eps: float = 1e-8,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines."""
        return F.cosine_similarity(x1, x2, dim=self.dim, eps=self.eps)


class PairwiseDistance(Module):
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

    def __init__(
        self,
        p: float = 2.0,
        eps: float = 1e-6,
        keepdim: bool = False,
    ) -> None:
        super().__init__()
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances."""
        return F.pairwise_distance(x1, x2, p=self.p, eps=self.eps, keepdim=self.keepdim)
