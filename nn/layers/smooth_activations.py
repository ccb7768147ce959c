"""Smooth activations and gates, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.module.module import Module
from tensor.lowlevel import InvalidArgumentError

if TYPE_CHECKING:
    from tensor import Tensor


class CELU(Module):
    """x where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere (Barron, 2017).

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
        """Apply it to each element."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class SELU(Module):
    """The scaled ELU of self-normalising networks (Klambauer et al., 2017).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.SELU()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return "inplace=True" if self.inplace else ""


class Mish(Module):
    """``x * tanh(softplus(x))`` (Misra, 2019).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Mish()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return "inplace=True" if self.inplace else ""


class GLU(Module):
    """The first half along `dim` times the sigmoid of the second (Dauphin et al., 2016).

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
        """Apply it to each element."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"dim={self.dim}"


class LogSigmoid(Module):
    """log(sigmoid(x)), without overflow.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LogSigmoid()(tensor.tensor([-1000.0])).tolist()
    [-1000.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softsign()(tensor.tensor([-1.0])).tolist()
    [-0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Tanhshrink()(tensor.tensor([0.0])).tolist()
    [0.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return F.tanhshrink(input)


class Softmin(Module):
    """``softmax(-x)`` along `dim`.

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
        """Apply it to each element."""
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """The softmax over the channels of ``(batch, channels, height, width)``, or of that without the batch.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Softmax2d()(tensor.ones((2, 1, 1))).flatten().tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Scale the channels of each place to sum 1."""
        if len(input.shape) not in (3, 4):
            raise InvalidArgumentError(
                "Softmax2d: input has shape (batch, channels, height, width), or that without the batch, "
                f"not {input.shape}"
            )
        return F.softmax(input, dim=-3)
