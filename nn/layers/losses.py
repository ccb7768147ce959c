"""Loss layers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, ClassVar

from nn import functional as F
from nn.functional.checks import check_delta, check_reduction
from nn.layers.linear import Linear
from nn.module.docstrings import complete, texts_of
from nn.module.module import Module
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError, TensorCore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.lowlevel import DtypeLike

_MADE_ONCE = (
    "{name}(...) takes options and makes a loss, which is then called: write criterion = nn.{name}(), and "
    "loss = criterion(input, target)"
)

# Finds the function whose docstring describes the loss's parameters.
_FUNCTION = re.compile(r"see ``functional\.(\w+)``")


class Loss(Module):
    """Base class of losses, with the option `reduction`.

    The docstring of a loss refers to its function, and copies its parameters.
    """

    _more_reductions: tuple[str, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("nn."):
            function = _FUNCTION.search(cls.__doc__ or "")
            complete(cls, texts_of(getattr(F, function[1])) if function else {})

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if isinstance(reduction, TensorCore):
            raise TypeError(_MADE_ONCE.format(name=type(self).__name__))
        check_reduction(type(self).__name__, reduction, *self._more_reductions)
        self.reduction = reduction


class PlainLoss(Loss):
    """Base class of losses of an input and a target with the only option `reduction`."""

    _function: ClassVar[Callable[..., Tensor]]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return type(self)._function(input, target, reduction=self.reduction)


class WeightedLoss(Loss):
    """Base class of losses with a weight of each element or class. The weight is a buffer."""

    _function: ClassVar[Callable[..., Tensor]]

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return type(self)._function(input, target, self.weight, reduction=self.reduction)


class CrossEntropyLoss(Loss):
    """Cross entropy between logits and class indices or probabilities; see ``functional.cross_entropy``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.

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
        if isinstance(ignore_index, TensorCore):
            raise TypeError(_MADE_ONCE.format(name=type(self).__name__))
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class LinearCrossEntropyLoss(Loss):
    """Linear layer followed by cross entropy; see ``functional.linear_cross_entropy``.

    Parameters
    ----------
    in_features, num_classes, bias, dtype
        The number of input features, the number of classes, and the options of `Linear`.
    out_features
        The shape of the logits of one sample and class; () for one logit.

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
                f"LinearCrossEntropyLoss: weight has shape ({num_classes},), not {weight.shape}"
            )
        if not 0 <= label_smoothing <= 1:
            raise InvalidArgumentError(
                f"LinearCrossEntropyLoss: label_smoothing is from 0 to 1, not {label_smoothing}"
            )
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        count = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, count, bias=bias, device=device, dtype=dtype)
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


class NLLLoss(Loss):
    """Negative log-likelihood of classes, from log-probabilities; see ``functional.nll_loss``.

    Parameters
    ----------
    weight
        The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy.

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
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class MSELoss(PlainLoss):
    """Mean squared error; see ``functional.mse_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.MSELoss()(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()
    2.0
    """

    _function = F.mse_loss


class L1Loss(PlainLoss):
    """Mean absolute error; see ``functional.l1_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.L1Loss(reduction="sum")(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()
    2.0
    """

    _function = F.l1_loss


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
        check_delta("HuberLoss", delta)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.huber_loss(input, target, self.reduction, self.delta)


class BCELoss(WeightedLoss):
    """Binary cross entropy of probabilities; see ``functional.binary_cross_entropy``.

    Parameters
    ----------
    weight
        The weight of each element. It is registered as a buffer, without a copy.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.BCELoss()(tensor.tensor([0.5]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """

    _function = F.binary_cross_entropy


class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of logits; see ``functional.binary_cross_entropy_with_logits``.

    Parameters
    ----------
    weight
        The weight of each element. It is registered as a buffer, without a copy.
    pos_weight
        The weight of positive targets. It is a buffer too.

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
