"""Activation layers."""

from __future__ import annotations

from typing import Any, ClassVar

from nn import functional as F
from nn import init
from nn.layers.function_layers import Unary
from nn.layers.weighted import Weighted, new_parameter, require_size
from nn.module.docstrings import example
from nn.module.module import Module
from nn.module.options import options
from nn.module.parameter import Parameter
from tensor import Tensor
from tensor.lowlevel import DtypeLike, InvalidArgumentError, TensorCore


class PlainActivation(Unary):
    """Base class of activations without options."""

    # Call the function directly: `_computed`, which the base class calls, takes longer.
    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return type(self)._function(input)


@options
class InPlaceActivation(Unary):
    """Base class of activations with the only option `inplace`."""

    inplace: bool = False

    _texts: ClassVar = {"inplace": "Write the output over the input."}

    def _set_options(self, given: dict[str, Any]) -> None:
        if isinstance(given["inplace"], TensorCore):
            name = type(self).__name__
            raise TypeError(
                f"the arguments of {name}(...) must be options, not the input: write nn.{name}()(x), or "
                f"nn.functional.{name.lower()}(x)"
            )
        super()._set_options(given)

    # Call the function directly: `_computed`, which the base class calls, takes longer.
    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return type(self)._function(input, self.inplace)


class ActivationWithoutExtraRepr(InPlaceActivation):
    """Base class of activations whose repr does not show the option `inplace`, as in PyTorch."""

    def extra_repr(self) -> str:
        """Return an empty text."""
        return ""


@options
class AlphaActivation(Unary):
    """Base class of activations with the option `alpha`, the scale of negative outputs."""

    alpha: float = 1.0
    inplace: bool = False


@options
class AlongDimension(Unary):
    """Base class of activations that normalize along a dimension."""

    dim: int | None = None


@options
class Shrinkage(Unary):
    """Base class of activations that set small elements to 0."""

    lambd: float = 0.5

    def extra_repr(self) -> str:
        """Return `lambd`."""
        return f"{self.lambd}"


@example("nn.ReLU()(tensor.tensor([-1.0, 2.0])).tolist()", [0.0, 2.0])
class ReLU(InPlaceActivation, function=F.relu):
    """Rectified linear unit: max(x, 0)."""


@example("nn.SiLU()(tensor.tensor([0.0])).tolist()", [0.0])
class SiLU(InPlaceActivation, function=F.silu):
    """Sigmoid linear unit (swish): x * sigmoid(x)."""


@options
@example("nn.LeakyReLU(0.5)(tensor.tensor([-2.0, 2.0])).tolist()", [-1.0, 2.0])
class LeakyReLU(Unary, function=F.leaky_relu):
    """Leaky ReLU: x for positive x, else ``negative_slope * x``."""

    negative_slope: float = 0.01
    inplace: bool = False


@example("nn.ELU()(tensor.tensor([0.0, 2.0])).tolist()", [0.0, 2.0])
class ELU(AlphaActivation, function=F.elu):
    """Exponential linear unit: x for positive x, else ``alpha * (exp(x) - 1)``."""


@example("nn.CELU()(tensor.tensor([0.0])).tolist()", [0.0])
class CELU(AlphaActivation, function=F.celu):
    """Smooth ELU: x for positive x, else ``alpha * (exp(x / alpha) - 1)`` (Barron, 2017)."""


@example("nn.SELU()(tensor.tensor([0.0])).tolist()", [0.0])
class SELU(InPlaceActivation, function=F.selu):
    """Scaled ELU of self-normalizing networks (Klambauer et al., 2017)."""


@options
@example("nn.GELU()(tensor.tensor([0.0])).tolist()", [0.0])
class GELU(Unary, function=F.gelu):
    """Gaussian error linear unit: x times the standard normal distribution function of x."""

    approximate: str = "none"


@example("nn.Mish()(tensor.tensor([0.0])).tolist()", [0.0])
class Mish(InPlaceActivation, function=F.mish):
    """Mish: ``x * tanh(softplus(x))`` (Misra, 2019)."""


@example("nn.Sigmoid()(tensor.tensor([0.0])).tolist()", [0.5])
class Sigmoid(PlainActivation, function=F.sigmoid):
    """Sigmoid: 1 / (1 + exp(-x))."""


@example("nn.LogSigmoid()(tensor.tensor([-1000.0])).tolist()", [-1000.0])
class LogSigmoid(PlainActivation, function=F.logsigmoid):
    """Logarithm of the sigmoid, without overflow."""


@example("nn.Tanh()(tensor.tensor([0.0])).tolist()", [0.0])
class Tanh(PlainActivation, function=F.tanh):
    """Hyperbolic tangent."""


@example("nn.Tanhshrink()(tensor.tensor([0.0])).tolist()", [0.0])
class Tanhshrink(PlainActivation, function=F.tanhshrink):
    """Tanh shrinkage: x - tanh(x)."""


@example("nn.Softsign()(tensor.tensor([-1.0])).tolist()", [-0.5])
class Softsign(PlainActivation, function=F.softsign):
    """Softsign: x / (1 + abs(x))."""


@options
@example("nn.Softplus()(tensor.tensor([30.0])).tolist()", [30.0])
class Softplus(Unary, function=F.softplus):
    """Softplus: log(1 + exp(beta * x)) / beta, and x if ``beta * x`` is above `threshold`."""

    beta: float = 1.0
    threshold: float = 20.0


@options
@example("nn.Hardtanh()(tensor.tensor([-2.0, 0.5])).tolist()", [-1.0, 0.5])
class Hardtanh(Unary, function=F.hardtanh):
    """Hard tanh: x clamped to the range from `min_val` to `max_val`."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


@example("nn.ReLU6()(tensor.tensor([-2.0, 7.0])).tolist()", [0.0, 6.0])
class ReLU6(InPlaceActivation, function=F.relu6):
    """ReLU with an upper limit: min(max(x, 0), 6)."""


@example("nn.Hardsigmoid()(tensor.tensor([-3.0, 0.0])).tolist()", [0.0, 0.5])
class Hardsigmoid(ActivationWithoutExtraRepr, function=F.hardsigmoid):
    """Hard sigmoid: x / 6 + 1 / 2 clamped to the range from 0 to 1."""


@example("nn.Hardswish()(tensor.tensor([0.0, 4.0])).tolist()", [0.0, 4.0])
class Hardswish(ActivationWithoutExtraRepr, function=F.hardswish):
    """Hard swish: ``x * hardsigmoid(x)`` (Howard et al., 2019)."""


@example("nn.Hardshrink()(tensor.tensor([-2.0, 0.3])).tolist()", [-2.0, 0.0])
class Hardshrink(Shrinkage, function=F.hardshrink):
    """Hard shrinkage: x if its magnitude is above `lambd`, else 0."""


@example("nn.Softshrink()(tensor.tensor([-2.0, 0.3])).tolist()", [-1.5, 0.0])
class Softshrink(Shrinkage, function=F.softshrink):
    """Soft shrinkage: x moved towards 0 by `lambd`, and 0 if its magnitude is at most `lambd`."""


@options
@example("nn.Threshold(1.0, -7.0)(tensor.tensor([0.5, 2.0])).tolist()", [-7.0, 2.0])
class Threshold(Unary, function=F.threshold):
    """Threshold: x if it is above `threshold`, else `value`."""

    threshold: float
    value: float
    inplace: bool = False


@options
@example("nn.RReLU(0.25, 0.75).eval()(tensor.tensor([-2.0, 2.0])).tolist()", [-1.0, 2.0])
class RReLU(Unary):
    """Randomized leaky ReLU: x for positive x, else x times a slope that is random in training."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@example("nn.PReLU()(tensor.tensor([-2.0, 2.0])).tolist()", [-0.5, 2.0])
class PReLU(Weighted):
    """Parametric ReLU: x for positive x, else ``weight * x`` with a learned weight (He et al., 2015).

    Parameters
    ----------
    num_parameters
        1, or one for each channel of inputs ``(batch, channels, *)``.
    init
        The initial value of the weight.
    dtype
        The dtype of the weight; float32 for None.
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(device)
        require_size("PReLU", "num_parameters", num_parameters)
        self.num_parameters, self.init = num_parameters, init
        self.weight = new_parameter((num_parameters,), dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to its initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of weights."""
        return f"num_parameters={self.num_parameters}"


@options
@example("nn.GLU()(tensor.tensor([3.0, 0.0])).tolist()", [1.5])
class GLU(Unary, function=F.glu):
    """Gated linear unit: first half along `dim` times sigmoid of the second half (Dauphin et al., 2016)."""

    dim: int = -1


@example("nn.Softmax(dim=1)(tensor.zeros((1, 2))).tolist()", [[0.5, 0.5]])
class Softmax(AlongDimension, function=F.softmax):
    """Softmax: exp(x) normalized to sum 1 along `dim`."""


@example("nn.LogSoftmax(dim=1)(tensor.zeros((1, 1))).tolist()", [[0.0]])
class LogSoftmax(AlongDimension, function=F.log_softmax):
    """Logarithm of the softmax along `dim`, with better precision than ``log(softmax(x))``."""


@example("nn.Softmin(dim=0)(tensor.tensor([0.0, 0.0])).tolist()", [0.5, 0.5])
class Softmin(AlongDimension, function=F.softmin):
    """Softmin: ``softmax(-x)`` along `dim`."""


@example("nn.Softmax2d()(tensor.ones((2, 1, 1))).flatten().tolist()", [0.5, 0.5])
class Softmax2d(Module):
    """Softmax over the channels of ``(batch, channels, height, width)``, or without the batch."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax over the channels."""
        if len(input.shape) not in (3, 4):
            raise InvalidArgumentError(
                "Softmax2d: input has shape (batch, channels, height, width), or that without the batch, "
                f"not {input.shape}"
            )
        return F.softmax(input, dim=-3)
