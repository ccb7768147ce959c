"""Margin losses."""

from __future__ import annotations

from collections.abc import Callable

from nn import functional as F
from nn.layers.distances import PairwiseDistance
from nn.layers.losses import Loss
from scopes._shared.naming import set_module
from tensor import Tensor


@set_module("nn")
class MarginRankingLoss(Loss):
    """Margin ranking loss of two scores; see ``functional.margin_ranking_loss``.

    Parameters
    ----------
    margin
        The difference from which the loss is 0.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MarginRankingLoss()(tensor.tensor([1.0]), tensor.tensor([3.0]), tensor.tensor([1])).item()
    2.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


@set_module("nn")
class HingeEmbeddingLoss(Loss):
    """Hinge loss of distances of similar and dissimilar pairs; see ``functional.hinge_embedding_loss``.

    Parameters
    ----------
    margin
        The distance of dissimilar pairs from which the loss is 0.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.HingeEmbeddingLoss()(tensor.tensor([0.25, 0.25]), tensor.tensor([1, -1])).item()
    0.5
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


@set_module("nn")
class SoftMarginLoss(Loss):
    """Logistic loss with targets 1 and -1; see ``functional.soft_margin_loss``.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.SoftMarginLoss()(tensor.tensor([0.0]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.soft_margin_loss(input, target, self.reduction)


@set_module("nn")
class CosineEmbeddingLoss(Loss):
    """Cosine loss of similar and dissimilar pairs; see ``functional.cosine_embedding_loss``.

    Parameters
    ----------
    margin
        The cosine of dissimilar pairs up to which the loss is 0, from -1 to 1.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CosineEmbeddingLoss()(tensor.ones(2), tensor.ones(2), tensor.tensor(-1)).item()
    1.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


@set_module("nn")
class TripletMarginLoss(Loss):
    """Triplet loss of anchor, positive and negative; see ``functional.triplet_margin_loss``.

    Parameters
    ----------
    margin
        The difference of distances from which the loss is 0. It must be positive.
    p, eps
        The arguments of ``pairwise_distance``.
    swap
        Replace d(anchor, negative) by d(positive, negative) if that is smaller (Balntas et al., 2016).
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

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
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )


@set_module("nn")
class TripletMarginWithDistanceLoss(Loss):
    """Triplet loss with your own distance function; see ``functional.triplet_margin_with_distance_loss``.

    Parameters
    ----------
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


@set_module("nn")
class MultiMarginLoss(Loss):
    """Multi-class margin loss; see ``functional.multi_margin_loss``.

    Parameters
    ----------
    p
        1, or 2 for squares.
    margin
        The difference from the target's score from which the loss is 0.
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> loss = nn.MultiMarginLoss(reduction="sum")
    >>> round(loss(tensor.tensor([[0.0, 2.0, 1.5]]), tensor.tensor([1])).item() * 3, 4)
    0.5
    """

    weight: Tensor | None

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


@set_module("nn")
class MultiLabelMarginLoss(Loss):
    """Margin loss for several target classes; see ``functional.multilabel_margin_loss``.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MultiLabelMarginLoss()(tensor.tensor([2.0, 1.5]), tensor.tensor([0, -1])).item()
    0.25
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multilabel_margin_loss(input, target, self.reduction)


@set_module("nn")
class MultiLabelSoftMarginLoss(Loss):
    """Binary cross entropy, averaged over classes; see ``functional.multilabel_soft_margin_loss``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.zeros((1, 3)), tensor.tensor([[1.0, 0.0, 1.0]])
    >>> round(nn.MultiLabelSoftMarginLoss()(x, y).item(), 4)
    0.6931
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)
