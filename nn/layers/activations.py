"""Activation layers."""

from __future__ import annotations

from nn import functional as F
from nn import init
from nn.layers.weighted import new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore


def _require_option(layer: str, inplace: object) -> None:
    """Raise TypeError if the option is a tensor: the user has called the class instead of a layer."""
    if isinstance(inplace, TensorCore):
        raise TypeError(
            f"the arguments of {layer}(...) must be options, not the input: write nn.{layer}()(x), or "
            f"nn.functional.{layer.lower()}(x)"
        )


def _shown(options: str, inplace: bool) -> str:
    """Return the text of a repr: the options, and ``inplace=True`` if it is set."""
    return ", ".join(filter(None, [options, "inplace=True" if inplace else ""]))


@set_module("nn")
class ReLU(Module):
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

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("ReLU", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return ``inplace=True`` if it is set."""
        return "inplace=True" if self.inplace else ""


@set_module("nn")
class SiLU(Module):
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

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("SiLU", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return ``inplace=True`` if it is set."""
        return "inplace=True" if self.inplace else ""


@set_module("nn")
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
        """Apply the activation."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _shown(f"negative_slope={self.negative_slope!r}", self.inplace)


@set_module("nn")
class ELU(Module):
    """Exponential linear unit: x for positive x, else ``alpha * (exp(x) - 1)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ELU()(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _shown(f"alpha={self.alpha!r}", self.inplace)


@set_module("nn")
class CELU(Module):
    """Smooth ELU: x for positive x, else ``alpha * (exp(x / alpha) - 1)`` (Barron, 2017).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CELU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _shown(f"alpha={self.alpha!r}", self.inplace)


@set_module("nn")
class SELU(Module):
    """Scaled ELU of self-normalizing networks (Klambauer et al., 2017).

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.SELU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("SELU", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return ``inplace=True`` if it is set."""
        return "inplace=True" if self.inplace else ""


@set_module("nn")
class GELU(Module):
    """Gaussian error linear unit: x times the standard normal distribution function of x.

    Parameters
    ----------
    approximate
        ``"none"``, or ``"tanh"`` for the faster approximation of Hendrycks and Gimpel (2016).

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
        """Apply the activation."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"approximate={self.approximate!r}"


@set_module("nn")
class Mish(Module):
    """Mish: ``x * tanh(softplus(x))`` (Misra, 2019).

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Mish()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("Mish", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        """Return ``inplace=True`` if it is set."""
        return "inplace=True" if self.inplace else ""


@set_module("nn")
class Sigmoid(Module):
    """Sigmoid: 1 / (1 + exp(-x)).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Sigmoid()(tensor.tensor([0.0])).tolist()
    [0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.sigmoid(input)


@set_module("nn")
class LogSigmoid(Module):
    """Logarithm of the sigmoid, without overflow.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LogSigmoid()(tensor.tensor([-1000.0])).tolist()
    [-1000.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.logsigmoid(input)


@set_module("nn")
class Tanh(Module):
    """Hyperbolic tangent.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Tanh()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.tanh(input)


@set_module("nn")
class Tanhshrink(Module):
    """Tanh shrinkage: x - tanh(x).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Tanhshrink()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.tanhshrink(input)


@set_module("nn")
class Softsign(Module):
    """Softsign: x / (1 + abs(x)).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softsign()(tensor.tensor([-1.0])).tolist()
    [-0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.softsign(input)


@set_module("nn")
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
        """Apply the activation."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"beta={self.beta!r}, threshold={self.threshold!r}"


@set_module("nn")
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
        """Apply the activation."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _shown(f"min_val={self.min_val!r}, max_val={self.max_val!r}", self.inplace)


@set_module("nn")
class ReLU6(Module):
    """ReLU with an upper limit: min(max(x, 0), 6).

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReLU6()(tensor.tensor([-2.0, 7.0])).tolist()
    [0.0, 6.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("ReLU6", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        """Return ``inplace=True`` if it is set."""
        return "inplace=True" if self.inplace else ""


@set_module("nn")
class Hardsigmoid(Module):
    """Hard sigmoid: x / 6 + 1 / 2 clamped to the range from 0 to 1.

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardsigmoid()(tensor.tensor([-3.0, 0.0])).tolist()
    [0.0, 0.5]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("Hardsigmoid", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.hardsigmoid(input, self.inplace)


@set_module("nn")
class Hardswish(Module):
    """Hard swish: ``x * hardsigmoid(x)`` (Howard et al., 2019).

    Parameters
    ----------
    inplace
        Write the output over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardswish()(tensor.tensor([0.0, 4.0])).tolist()
    [0.0, 4.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        _require_option("Hardswish", inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.hardswish(input, self.inplace)


@set_module("nn")
class Hardshrink(Module):
    """Hard shrinkage: x if its magnitude is above `lambd`, else 0.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Hardshrink()(tensor.tensor([-2.0, 0.3])).tolist()
    [-2.0, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return `lambd`."""
        return f"{self.lambd}"


@set_module("nn")
class Softshrink(Module):
    """Soft shrinkage: x moved towards 0 by `lambd`, and 0 if its magnitude is at most `lambd`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softshrink()(tensor.tensor([-2.0, 0.3])).tolist()
    [-1.5, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return `lambd`."""
        return f"{self.lambd}"


@set_module("nn")
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
        """Apply the activation."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _shown(f"threshold={self.threshold!r}, value={self.value!r}", self.inplace)


@set_module("nn")
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
        """Apply the activation."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _shown(f"lower={self.lower!r}, upper={self.upper!r}", self.inplace)


@set_module("nn")
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
        self.num_parameters: int = num_parameters
        self.init: float = init
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


@set_module("nn")
class GLU(Module):
    """Gated linear unit: first half along `dim` times sigmoid of the second half (Dauphin et al., 2016).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.GLU()(tensor.tensor([3.0, 0.0])).tolist()
    [1.5]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim!r}"


@set_module("nn")
class Softmax(Module):
    """Softmax: exp(x) normalized to sum 1 along `dim`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmax(dim=1)(tensor.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim!r}"


@set_module("nn")
class LogSoftmax(Module):
    """Logarithm of the softmax along `dim`, with better precision than ``log(softmax(x))``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LogSoftmax(dim=1)(tensor.zeros((1, 1))).tolist()
    [[0.0]]
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim!r}"


@set_module("nn")
class Softmin(Module):
    """Softmin: ``softmax(-x)`` along `dim`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmin(dim=0)(tensor.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim!r}"


@set_module("nn")
class Softmax2d(Module):
    """Softmax over the channels of ``(batch, channels, height, width)``, or without the batch.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmax2d()(tensor.ones((2, 1, 1))).flatten().tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax over the channels."""
        if len(input.shape) not in (3, 4):
            raise InvalidArgumentError(
                "Softmax2d: input has shape (batch, channels, height, width), or that without the batch, "
                f"not {input.shape}"
            )
        return F.softmax(input, dim=-3)
