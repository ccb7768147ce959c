"""Similarities and distances of vectors."""

from __future__ import annotations

from nn import functional as F
from nn.layers.function_layers import FunctionLayer
from nn.module.docstrings import example
from nn.module.options import options
from tensor import Tensor


class _Distance(FunctionLayer):
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return a number for each pair of vectors."""
        return self._computed(x1, x2)

    def extra_repr(self) -> str:
        """Return an empty text, as in PyTorch."""
        return ""


@options
@example("nn.CosineSimilarity()(tensor.tensor([[1.0, 0.0]]), tensor.tensor([[0.0, 1.0]])).tolist()", [0.0])
class CosineSimilarity(_Distance, function=F.cosine_similarity):
    """Cosine similarity of vectors; see ``functional.cosine_similarity``."""

    dim: int = 1
    eps: float = 1e-8


@options
@example("round(nn.PairwiseDistance()(tensor.ones((2,)), tensor.tensor([4.0, 5.0])).item(), 4)", 5.0)
class PairwiseDistance(_Distance, function=F.pairwise_distance):
    """Norm of the difference of two vectors; see ``functional.pairwise_distance``."""

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False
