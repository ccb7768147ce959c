"""Linear and bilinear layers, `Identity`, `Flatten` and `Unflatten`."""

from __future__ import annotations

from dataclasses import InitVar
from typing import TYPE_CHECKING

from nn import functional as F
from nn.layers.weighted import Uniform
from nn.module.docstrings import example
from nn.module.module import Module
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import DtypeLike

if TYPE_CHECKING:
    from nn.layers.weighted import Shape


@options
@example("nn.Linear(3, 2)(tensor.ones((4, 3))).shape", (4, 2))
class Linear(Uniform):
    """Linear layer: ``x @ weight.T + bias``.

    Input ``(*, in_features)``, output ``(*, out_features)``. Both parameters are initialized uniformly within
    +-1 / sqrt(in_features), as in PyTorch.

    Parameters
    ----------
    in_features, out_features
        The sizes of the last dimension of inputs and output.
    """

    in_features: int
    out_features: int
    _bias: InitVar[bool] = option(default=True, alias="bias")
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    _sizes = ("in_features", "out_features")

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        shape = (self.out_features, self.in_features)
        return {"weight": shape, "bias": shape[:1] if has_bias else None}

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


@options
@example("nn.Bilinear(3, 4, 2)(tensor.ones((5, 3)), tensor.ones((5, 4))).shape", (5, 2))
class Bilinear(Uniform):
    """Bilinear layer: ``x1 @ weight[i] @ x2 + bias[i]`` for each output feature.

    Inputs ``(*, in1_features)`` and ``(*, in2_features)``, output ``(*, out_features)``. Both parameters are
    initialized uniformly within +-1 / sqrt(in1_features), as in PyTorch.

    Parameters
    ----------
    in1_features, in2_features, out_features
        The sizes of the last dimension of inputs and output.
    """

    in1_features: int
    in2_features: int
    out_features: int
    _bias: InitVar[bool] = option(default=True, alias="bias")
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    _sizes = ("in1_features", "in2_features", "out_features")

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        shape = (self.out_features, self.in1_features, self.in2_features)
        return {"weight": shape, "bias": shape[:1] if has_bias else None}

    def _fan_in(self) -> int:
        return self.in1_features

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear form of both inputs."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


@example("nn.Identity(54, unused=True)(tensor.ones((1,))).tolist()", [1.0])
class Identity(Module):
    """Identity layer. Its constructor ignores all arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        del args, kwargs
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` itself."""
        return input


@example("nn.Flatten()(tensor.ones((5, 2, 3))).shape", (5, 6))
class Flatten(Module):
    """Flattens the dimensions from `start_dim` to `end_dim`. The output is a view if the layout allows it."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with these dimensions flattened."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


@example("nn.Unflatten(1, (2, 3))(tensor.ones((5, 6))).shape", (5, 2, 3))
class Unflatten(Module):
    """Splits dimension `dim` into the sizes `unflattened_size`. One size may be -1."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an integer, not {type(dim).__name__}")
        self.dim = dim
        self.unflattened_size: tuple[int, ...] = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with this dimension split."""
        rank = len(input.shape)
        if not -rank <= self.dim < rank:
            raise IndexError(
                f"Unflatten: dim is {self.dim}, but an input of shape {input.shape} has no such dimension"
            )
        dim = self.dim % rank
        return input.reshape((*input.shape[:dim], *self.unflattened_size, *input.shape[dim + 1 :]))

    def extra_repr(self) -> str:
        """Return the dimension and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
