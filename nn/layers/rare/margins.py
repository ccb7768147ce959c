"""Margin losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn.layers.distances import PairwiseDistance
from nn.layers.losses import Loss, PlainLoss, WeightedLoss

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor


class _PairLoss(Loss):
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return type(self)._function(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_PairLoss):
    """Margin ranking loss of two scores; see ``functional.margin_ranking_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b = tensor.tensor([1.0, 1.0]), tensor.tensor([3.0, 0.0])
    >>> nn.MarginRankingLoss()(a, b, tensor.tensor([1, 1])).item()
    1.0
    """

    _function = F.margin_ranking_loss


class HingeEmbeddingLoss(Loss):
    """Hinge loss of distances of similar and dissimilar pairs; see ``functional.hinge_embedding_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([0.25, 0.25]), tensor.tensor([1, -1])
    >>> nn.HingeEmbeddingLoss()(x, y).item()
    0.5
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(PlainLoss):
    """Logistic loss with targets 1 and -1; see ``functional.soft_margin_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.SoftMarginLoss()(tensor.tensor([0.0]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """

    _function = F.soft_margin_loss


class CosineEmbeddingLoss(_PairLoss):
    """Cosine loss of similar and dissimilar pairs; see ``functional.cosine_embedding_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([[1.0, 0.0]]), tensor.tensor([[0.0, 1.0]])
    >>> nn.CosineEmbeddingLoss()(x, y, tensor.tensor([1])).item()
    1.0
    """

    _function = F.cosine_embedding_loss


class TripletMarginLoss(Loss):
    """Triplet loss of anchor, positive and negative; see ``functional.triplet_margin_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b, c = (tensor.tensor([[v, 0.0]]) for v in (0.0, 2.0, 1.0))
    >>> round(nn.TripletMarginLoss()(a, b, c).item(), 4)
    2.0
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Loss):
    """Triplet loss with your own distance function; see ``functional.triplet_margin_with_distance_loss``.

    Parameters
    ----------
    distance_function
        Function of two tensors that returns the distance of each pair of vectors. The default is
        ``PairwiseDistance()``.
    margin
        The margin, above 0.
    swap
        Use the distance of positive and negative if the anchor is further from the negative.
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

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function: Callable[[Tensor, Tensor], Tensor] = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiMarginLoss(Loss):
    """Multi-class margin loss; see ``functional.multi_margin_loss``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.

    Examples
    --------
    >>> import nn, tensor
    >>> loss = nn.MultiMarginLoss(reduction="sum")
    >>> round(loss(tensor.tensor([[0.0, 2.0, 1.5]]), tensor.tensor([1])).item() * 3, 4)
    0.5
    """

    weight: Tensor | None

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(PlainLoss):
    """Margin loss for several target classes; see ``functional.multilabel_margin_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> loss = nn.MultiLabelMarginLoss(reduction="sum")
    >>> round(loss(tensor.tensor([0.0, 2.0, 1.5]), tensor.tensor([1, -1, 0])).item() * 3, 4)
    0.5
    """

    _function = F.multilabel_margin_loss


class MultiLabelSoftMarginLoss(WeightedLoss):
    """Binary cross entropy, averaged over classes; see ``functional.multilabel_soft_margin_loss``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.zeros((1, 3)), tensor.tensor([[1.0, 0.0, 1.0]])
    >>> round(nn.MultiLabelSoftMarginLoss()(x, y).item(), 4)
    0.6931
    """

    _function = F.multilabel_soft_margin_loss
