"""Margin losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

from nn import functional as F
from nn.layers.distances import PairwiseDistance
from nn.layers.losses import CLASS_WEIGHT, Loss, PlainLoss, ReducedLoss
from nn.module.docstrings import example
from nn.module.options import options
from tensor import Tensor


@options
class _PairLoss(Loss):
    margin: float = 0.0
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return self._computed(input1, input2, target)


class _TripletLoss(Loss):
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return self._computed(anchor, positive, negative)


@options
@example("nn.MarginRankingLoss()(tensor.tensor([1.0]), tensor.tensor([3.0]), tensor.tensor([1])).item()", 2.0)
class MarginRankingLoss(_PairLoss, function=F.margin_ranking_loss):
    """Margin ranking loss of two scores; see ``functional.margin_ranking_loss``."""


@options
@example("nn.HingeEmbeddingLoss()(tensor.tensor([0.25, 0.25]), tensor.tensor([1, -1])).item()", 0.5)
class HingeEmbeddingLoss(PlainLoss, function=F.hinge_embedding_loss):
    """Hinge loss of distances of similar and dissimilar pairs; see ``functional.hinge_embedding_loss``."""

    margin: float = 1.0
    reduction: str = "mean"


@options
@example("round(nn.SoftMarginLoss()(tensor.tensor([0.0]), tensor.tensor([1.0])).item(), 4)", 0.6931)
class SoftMarginLoss(ReducedLoss, function=F.soft_margin_loss):
    """Logistic loss with targets 1 and -1; see ``functional.soft_margin_loss``."""


@options
@example("nn.CosineEmbeddingLoss()(tensor.ones(2), tensor.ones(2), tensor.tensor(-1)).item()", 1.0)
class CosineEmbeddingLoss(_PairLoss, function=F.cosine_embedding_loss):
    """Cosine loss of similar and dissimilar pairs; see ``functional.cosine_embedding_loss``."""


@options
class TripletMarginLoss(_TripletLoss, function=F.triplet_margin_loss):
    """Triplet loss of anchor, positive and negative; see ``functional.triplet_margin_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b, c = (tensor.tensor([[v, 0.0]]) for v in (0.0, 2.0, 1.0))
    >>> round(nn.TripletMarginLoss()(a, b, c).item(), 4)
    2.0
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"


@options
class TripletMarginWithDistanceLoss(_TripletLoss, function=F.triplet_margin_with_distance_loss):
    """Triplet loss with your own distance function; see ``functional.triplet_margin_with_distance_loss``.

    Parameters
    ----------
    distance_function
        Function of two tensors that returns the distance of each pair of vectors. The default is
        ``PairwiseDistance()``.
    margin
        The margin, above 0.
    swap
        Use the smaller one of d(anchor, negative) and d(positive, negative).
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b, c = (tensor.tensor([[v, 0.0]]) for v in (0.0, 2.0, 1.0))
    >>> taxi = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(dim=-1))
    >>> taxi(a, b, c).item()
    2.0
    """

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options({**given, "distance_function": given["distance_function"] or PairwiseDistance()})


@options
class MultiMarginLoss(PlainLoss, function=F.multi_margin_loss):
    """Multi-class margin loss; see ``functional.multi_margin_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> loss = nn.MultiMarginLoss(reduction="sum")
    >>> round(loss(tensor.tensor([[0.0, 2.0, 1.5]]), tensor.tensor([1])).item() * 3, 4)
    0.5
    """

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    reduction: str = "mean"

    _texts = CLASS_WEIGHT


@options
@example("nn.MultiLabelMarginLoss()(tensor.tensor([2.0, 1.5]), tensor.tensor([0, -1])).item()", 0.25)
class MultiLabelMarginLoss(ReducedLoss, function=F.multilabel_margin_loss):
    """Margin loss for several target classes; see ``functional.multilabel_margin_loss``."""


@options
class MultiLabelSoftMarginLoss(PlainLoss, function=F.multilabel_soft_margin_loss):
    """Binary cross entropy, averaged over classes; see ``functional.multilabel_soft_margin_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.zeros((1, 3)), tensor.tensor([[1.0, 0.0, 1.0]])
    >>> round(nn.MultiLabelSoftMarginLoss()(x, y).item(), 4)
    0.6931
    """

    weight: Tensor | None = None
    reduction: str = "mean"

    _texts = CLASS_WEIGHT
