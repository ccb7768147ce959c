"""Piecewise linear and constant activation layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn import init
from nn.layers.activations import InPlaceActivation
from nn.layers.linear import new_parameter, require_size
from nn.module.module import Module
from tensor.lowlevel import require_cpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.module.parameter import Parameter
    from tensor import Tensor
    from tensor.lowlevel import DtypeLike


class _Silent(InPlaceActivation):
    def extra_repr(self) -> str:
        """Return an empty text, because PyTorch shows no options here."""
        return ""


class _Shrink(Module):
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return type(self)._function(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.lambd}"


class Hardtanh(Module):
    """Hard tanh: x clamped to the range from `min_val` to `max_val`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardtanh()(tensor.tensor([-2.0, 0.5])).tolist()
    [-1.0, 0.5]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"min_val={self.min_val}, max_val={self.max_val}{', inplace=True' if self.inplace else ''}"


class ReLU6(InPlaceActivation):
    """ReLU with an upper limit: min(max(x, 0), 6).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReLU6()(tensor.tensor([-2.0, 7.0])).tolist()
    [0.0, 6.0]
    """

    _function = F.relu6


class Hardsigmoid(_Silent):
    """Hard sigmoid: x / 6 + 1 / 2 clamped to the range from 0 to 1.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardsigmoid()(tensor.tensor([-3.0, 0.0])).tolist()
    [0.0, 0.5]
    """

    _function = F.hardsigmoid


class Hardswish(_Silent):
    """Hard swish: ``x * hardsigmoid(x)`` (Howard et al., 2019).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardswish()(tensor.tensor([0.0, 4.0])).tolist()
    [0.0, 4.0]
    """

    _function = F.hardswish


class Hardshrink(_Shrink):
    """Hard shrinkage: x if its magnitude is above `lambd`, else 0.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardshrink()(tensor.tensor([-2.0, 0.3])).tolist()
    [-2.0, 0.0]
    """

    _function = F.hardshrink


class Softshrink(_Shrink):
    """Soft shrinkage: x moved towards 0 by `lambd`, and 0 if its magnitude is at most `lambd`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softshrink()(tensor.tensor([-2.0, 0.3])).tolist()
    [-1.5, 0.0]
    """

    _function = F.softshrink


class Threshold(Module):
    """Threshold: x if it is above `threshold`, else `value`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Threshold(1.0, -7.0)(tensor.tensor([0.5, 2.0])).tolist()
    [-7.0, 2.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"threshold={self.threshold}, value={self.value}{', inplace=True' if self.inplace else ''}"


class RReLU(Module):
    """Randomized leaky ReLU: x for positive x, else x times a slope that is random in training.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.RReLU(0.25, 0.75).eval()(tensor.tensor([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"lower={self.lower}, upper={self.upper}{', inplace=True' if self.inplace else ''}"


class PReLU(Module):
    """Parametric ReLU: x for positive x, else ``weight * x`` with a learned weight (He et al., 2015).

    Parameters
    ----------
    num_parameters
        1, or one for each channel of inputs ``(batch, channels, *)``.
    init
        The initial value of the weight.
    dtype
        The dtype of the weight; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.PReLU()(tensor.tensor([-2.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
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
