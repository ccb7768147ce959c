"""Similarities and distances of vectors."""

from __future__ import annotations

from nn import functional as F
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor


@set_module("nn")
class CosineSimilarity(Module):
    """Cosine similarity of vectors; see ``functional.cosine_similarity``.

    Parameters
    ----------
    dim
        The dimension of the vectors, which is removed.
    eps
        The lower bound of the lengths, to avoid a division by 0.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CosineSimilarity()(tensor.tensor([[1.0, 0.0]]), tensor.tensor([[0.0, 1.0]])).tolist()
    [0.0]
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return a number for each pair of vectors."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


@set_module("nn")
class PairwiseDistance(Module):
    """Norm of the difference of two vectors; see ``functional.pairwise_distance``.

    Parameters
    ----------
    p
        The degree of the norm.
    eps
        The number added to each difference, so that the gradient is finite for equal vectors.
    keepdim
        Return shape ``(*, 1)`` instead of ``(*,)``.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.PairwiseDistance()(tensor.ones((2,)), tensor.tensor([4.0, 5.0])).item(), 4)
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return a number for each pair of vectors."""
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
