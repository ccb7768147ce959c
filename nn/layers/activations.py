"""Activation layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn.module.module import Module
from tensor.lowlevel import TensorCore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor


class Activation(Module):
    """Base class of activations without options."""

    _function: ClassVar[Callable[..., Tensor]]

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return type(self)._function(input)


class InPlaceActivation(Module):
    """Base class of activations with the only option `inplace`."""

    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        if isinstance(inplace, TensorCore):
            name = type(self).__name__
            raise TypeError(
                f"{name}(...) takes options and makes a module, which is then called: write nn.{name}()(x), "
                f"or nn.functional.{name.lower()}(x)"
            )
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return type(self)._function(input, self.inplace)

    def extra_repr(self) -> str:
        """Return the option `inplace`."""
        return "inplace=True" if self.inplace else ""


class AlphaActivation(Module):
    """Base class of activations with the option `alpha`, the scale of negative outputs."""

    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return type(self)._function(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class AlongDimension(Module):
    """Base class of activations that normalize along a dimension."""

    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Normalize along the dimension."""
        return type(self)._function(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class ReLU(InPlaceActivation):
    """Rectified linear unit: max(x, 0).

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReLU()(tensor.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = F.relu


class SiLU(InPlaceActivation):
    """Sigmoid linear unit (swish): x * sigmoid(x).

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.SiLU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    _function = F.silu


class LeakyReLU(Module):
    """Leaky ReLU: x for positive x, else ``negative_slope * x``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LeakyReLU(0.5)(tensor.tensor([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}{', inplace=True' if self.inplace else ''}"


class ELU(AlphaActivation):
    """Exponential linear unit: x for positive x, else ``alpha * (exp(x) - 1)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ELU()(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = F.elu


class GELU(Module):
    """Gaussian error linear unit: x times the standard normal distribution function of x.

    Parameters
    ----------
    approximate
        ``"none"``, or ``"tanh"`` for the faster approximation by Hendrycks and Gimpel (2016).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.GELU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the formula used."""
        return f"approximate={self.approximate!r}"


class Sigmoid(Activation):
    """Sigmoid: 1 / (1 + exp(-x)).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Sigmoid()(tensor.tensor([0.0])).tolist()
    [0.5]
    """

    _function = F.sigmoid


class Tanh(Activation):
    """Hyperbolic tangent.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Tanh()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    _function = F.tanh


class Softplus(Module):
    """Softplus: log(1 + exp(beta * x)) / beta, and x if ``beta * x`` is above `threshold`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softplus()(tensor.tensor([30.0])).tolist()
    [30.0]
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return beta and the threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(AlongDimension):
    """Softmax: exp(x) normalized to sum 1 along `dim`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmax(dim=1)(tensor.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """

    _function = F.softmax


class LogSoftmax(AlongDimension):
    """Logarithm of the softmax along `dim`, with better precision than ``log(softmax(x))``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LogSoftmax(dim=1)(tensor.zeros((1, 1))).tolist()
    [[0.0]]
    """

    _function = F.log_softmax
