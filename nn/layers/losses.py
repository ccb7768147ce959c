"""Loss layers."""

from __future__ import annotations

import math

from nn import functional as F
from nn.functional.checks import check_delta, check_probability, check_reduction
from nn.layers.linear import Linear
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore


class Loss(Module):
    """Base class of losses, with the option `reduction`. Weights are buffers."""

    def __init__(self, reduction: str, *more_reductions: str) -> None:
        super().__init__()
        self._require_options(reduction)
        check_reduction(type(self).__name__, reduction, *more_reductions)
        self.reduction = reduction

    def _require_options(self, *options: object) -> None:
        """Raise TypeError if an option is a tensor: the user has called the class instead of a layer."""
        if any(isinstance(option, TensorCore) for option in options):
            name = type(self).__name__
            raise TypeError(
                f"the arguments of {name}(...) must be options, not input and target: write "
                f"criterion = nn.{name}(), then criterion(input, target)"
            )


@set_module("nn")
class CrossEntropyLoss(Loss):
    """Cross entropy between logits and class indices or probabilities; see ``functional.cross_entropy``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.
    ignore_index
        A class index to ignore.
    reduction
        ``"mean"`` (weighted by the classes' weights), ``"sum"`` or ``"none"``.
    label_smoothing
        The fraction of the target, from 0 to 1, to distribute evenly over all classes (Szegedy et al., 2016).

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.CrossEntropyLoss()(tensor.zeros((1, 2)), tensor.tensor([1])).item(), 4)
    0.6931
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self._require_options(ignore_index)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


@set_module("nn")
class LinearCrossEntropyLoss(Loss):
    """Linear layer followed by cross entropy; see ``functional.linear_cross_entropy``.

    Parameters
    ----------
    in_features, num_classes, bias, dtype
        The number of input features, the number of classes, and the options of `Linear`.
    out_features
        The shape of the logits of one sample and class; () for one logit.
    reduction, weight, ignore_index, label_smoothing
        As in ``cross_entropy``.
    options
        PyTorch's options for chunks. They have no effect here.

    Examples
    --------
    >>> import nn, tensor
    >>> loss = nn.LinearCrossEntropyLoss(3, 2)(tensor.zeros((1, 3)), tensor.tensor([1]))
    >>> round(loss.item(), 4)
    0.6931
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: object = None,
    ) -> None:
        super().__init__(reduction)
        if weight is not None and weight.shape != (num_classes,):
            raise InvalidArgumentError(
                f"LinearCrossEntropyLoss: weight must have shape ({num_classes},), not {weight.shape}"
            )
        check_probability("LinearCrossEntropyLoss", "label_smoothing", label_smoothing)
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        count = math.prod(out_features, start=num_classes)
        self.linear: Linear = Linear(in_features, count, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*sizes, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )


@set_module("nn")
class NLLLoss(Loss):
    """Negative log-likelihood of classes, from log-probabilities; see ``functional.nll_loss``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.
    ignore_index
        A class index to ignore.
    reduction
        ``"mean"`` (weighted by the classes' weights), ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.NLLLoss()(tensor.tensor([[-1.0, -2.0]]), tensor.tensor([1])).item()
    2.0
    """

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self._require_options(ignore_index)
        self.ignore_index = ignore_index
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


@set_module("nn")
class MSELoss(Loss):
    """Mean squared error; see ``functional.mse_loss``.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MSELoss()(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()
    2.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.mse_loss(input, target, self.reduction)


@set_module("nn")
class L1Loss(Loss):
    """Mean absolute error; see ``functional.l1_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.L1Loss(reduction="sum")(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()
    2.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.l1_loss(input, target, self.reduction)


@set_module("nn")
class SmoothL1Loss(Loss):
    """Smooth L1 loss: squared error below `beta`, absolute error above; see ``functional.smooth_l1_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.SmoothL1Loss()(tensor.tensor([0.0, 0.0]), tensor.tensor([1.0, 3.0])).item()
    1.5
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


@set_module("nn")
class HuberLoss(Loss):
    """Huber loss: squared error below `delta`, absolute error above; see ``functional.huber_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.HuberLoss()(tensor.tensor([0.0, 0.0]), tensor.tensor([1.0, 3.0])).item()
    1.5
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta
        check_delta("HuberLoss", delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.huber_loss(input, target, self.reduction, self.delta)


@set_module("nn")
class BCELoss(Loss):
    """Binary cross entropy of probabilities; see ``functional.binary_cross_entropy``.

    Parameters
    ----------
    weight
        The weight of each element. It is registered as a buffer, without a copy.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.BCELoss()(tensor.tensor([0.5]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


@set_module("nn")
class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of logits; see ``functional.binary_cross_entropy_with_logits``.

    Parameters
    ----------
    weight
        The weight of each element. It is registered as a buffer, without a copy.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    pos_weight
        The weight of positive examples. It broadcasts to the input's shape, and may require a gradient.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.BCEWithLogitsLoss()(tensor.tensor([0.0]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)
