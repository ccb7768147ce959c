"""Loss layers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from nn import functional as F
from nn.functional.checks import check_delta, check_probability, check_reduction
from nn.layers.function_layers import FunctionLayer
from nn.layers.linear import Linear
from nn.module.docstrings import complete, example, texts_of
from nn.module.options import options
from tensor import Tensor
from tensor.lowlevel import DtypeLike, InvalidArgumentError, TensorCore

_MADE_ONCE = (
    "the arguments of {name}(...) must be options, not input and target: write criterion = nn.{name}(), then "
    "criterion(input, target)"
)


CLASS_WEIGHT = {
    "weight": "The weight of each class, shape ``(classes,)``. It is registered as a buffer, without a copy."
}
ELEMENT_WEIGHT = {"weight": "The weight of each element. It is registered as a buffer, without a copy."}


class Loss(FunctionLayer):
    """Base class of losses, with the option `reduction`. Weights are buffers."""

    reduction: str

    _more_reductions: ClassVar[tuple[str, ...]] = ()

    def __init__(self, reduction: str = "mean") -> None:
        self._set_options({"reduction": reduction})

    def _set_options(self, given: dict[str, Any]) -> None:
        name, reduction = type(self).__name__, given["reduction"]
        if any(isinstance(given.get(option), TensorCore) for option in ("reduction", "ignore_index")):
            raise TypeError(_MADE_ONCE.format(name=name))
        check_reduction(name, reduction, *self._more_reductions)
        weights = {option: given.pop(option) for option in ("weight", "pos_weight") if option in given}
        super()._set_options(given)
        for option, weight in weights.items():
            self.register_buffer(option, weight)

    def extra_repr(self) -> str:
        """Return an empty text, as in PyTorch."""
        return ""


class PlainLoss(Loss):
    """Base class of losses of an input and a target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return self._computed(input, target)


@options
class ReducedLoss(PlainLoss):
    """Base class of losses whose first option is `reduction`."""

    reduction: str = "mean"


@options
class ClassLoss(PlainLoss):
    """Base class of losses with class indices as targets."""

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"

    _texts = CLASS_WEIGHT


@options
@example("round(nn.CrossEntropyLoss()(tensor.zeros((1, 2)), tensor.tensor([1])).item(), 4)", 0.6931)
class CrossEntropyLoss(ClassLoss, function=F.cross_entropy):
    """Cross entropy between logits and class indices or probabilities; see ``functional.cross_entropy``."""

    label_smoothing: float = 0.0


@example(
    "loss = nn.LinearCrossEntropyLoss(3, 2)(tensor.zeros((1, 3)), tensor.tensor([1])); round(loss.item(), 4)",
    0.6931,
)
class LinearCrossEntropyLoss(Loss):
    """Linear layer followed by cross entropy; see ``functional.linear_cross_entropy``.

    Parameters
    ----------
    in_features, num_classes, bias, dtype
        The number of input features, the number of classes, and the options of `Linear`.
    out_features
        The shape of the logits of one sample and class; () for one logit.
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


complete(LinearCrossEntropyLoss, texts_of(F.linear_cross_entropy))


@options
@example("nn.NLLLoss()(tensor.tensor([[-1.0, -2.0]]), tensor.tensor([1])).item()", 2.0)
class NLLLoss(ClassLoss, function=F.nll_loss):
    """Negative log-likelihood of classes, from log-probabilities; see ``functional.nll_loss``."""


@options
@example("nn.MSELoss()(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()", 2.0)
class MSELoss(ReducedLoss, function=F.mse_loss):
    """Mean squared error; see ``functional.mse_loss``."""


@options
@example('nn.L1Loss(reduction="sum")(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()', 2.0)
class L1Loss(ReducedLoss, function=F.l1_loss):
    """Mean absolute error; see ``functional.l1_loss``."""


@options
@example("nn.SmoothL1Loss()(tensor.tensor([0.0, 0.0]), tensor.tensor([1.0, 3.0])).item()", 1.5)
class SmoothL1Loss(ReducedLoss, function=F.smooth_l1_loss):
    """Smooth L1 loss: squared error below `beta`, absolute error above; see ``functional.smooth_l1_loss``."""

    beta: float = 1.0


@options
@example("nn.HuberLoss()(tensor.tensor([0.0, 0.0]), tensor.tensor([1.0, 3.0])).item()", 1.5)
class HuberLoss(ReducedLoss, function=F.huber_loss):
    """Huber loss: squared error below `delta`, absolute error above; see ``functional.huber_loss``."""

    delta: float = 1.0

    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options(given)
        check_delta("HuberLoss", self.delta)


@options
@example("round(nn.BCELoss()(tensor.tensor([0.5]), tensor.tensor([1.0])).item(), 4)", 0.6931)
class BCELoss(PlainLoss, function=F.binary_cross_entropy):
    """Binary cross entropy of probabilities; see ``functional.binary_cross_entropy``."""

    weight: Tensor | None = None
    reduction: str = "mean"

    _texts = ELEMENT_WEIGHT


@options
@example("round(nn.BCEWithLogitsLoss()(tensor.tensor([0.0]), tensor.tensor([1.0])).item(), 4)", 0.6931)
class BCEWithLogitsLoss(PlainLoss, function=F.binary_cross_entropy_with_logits):
    """Binary cross entropy of logits; see ``functional.binary_cross_entropy_with_logits``.

    Parameters
    ----------
    pos_weight
        The weight of positive targets. It is a buffer too.
    """

    weight: Tensor | None = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None

    _texts = ELEMENT_WEIGHT
