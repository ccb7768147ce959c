"""Linear and bilinear layers, `Identity`, `Flatten` and `Unflatten`."""

from __future__ import annotations

import math

from nn import functional as F
from nn.layers.weighted import init_uniform, new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike


@set_module("nn")
class Linear(Module):
    """Linear layer: ``x @ weight.T + bias``.

    Input ``(*, in_features)``, output ``(*, out_features)``. Both parameters are initialized uniformly within
    +-1 / sqrt(in_features), as in PyTorch.

    Parameters
    ----------
    in_features, out_features
        The sizes of the last dimension of inputs and output.
    bias
        Whether to add a bias.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Linear(3, 2)(tensor.ones((4, 3))).shape
    (4, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        require_size(type(self).__name__, "in_features", in_features)
        require_size(type(self).__name__, "out_features", out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in_features), dtype)
        self.register_parameter("bias", new_parameter((out_features,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize both parameters uniformly within +-1 / sqrt(in_features), as PyTorch does."""
        init_uniform(self.weight, self.bias, math.prod(self.weight.shape[1:]))

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


@set_module("nn")
class Bilinear(Module):
    """Bilinear layer: ``x1 @ weight[i] @ x2 + bias[i]`` for each output feature.

    Inputs ``(*, in1_features)`` and ``(*, in2_features)``, output ``(*, out_features)``. Both parameters are
    initialized uniformly within +-1 / sqrt(in1_features), as in PyTorch.

    Parameters
    ----------
    in1_features, in2_features, out_features
        The sizes of the last dimension of inputs and output.
    bias
        Whether to add a bias.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Bilinear(3, 4, 2)(tensor.ones((5, 3)), tensor.ones((5, 4))).shape
    (5, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        require_size(type(self).__name__, "in1_features", in1_features)
        require_size(type(self).__name__, "in2_features", in2_features)
        require_size(type(self).__name__, "out_features", out_features)
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in1_features, in2_features), dtype)
        self.register_parameter("bias", new_parameter((out_features,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize both parameters uniformly within +-1 / sqrt(in1_features), as PyTorch does."""
        init_uniform(self.weight, self.bias, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear form of both inputs."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


@set_module("nn")
class Identity(Module):
    """Identity layer. Its constructor ignores all arguments.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Identity(54, unused=True)(tensor.ones((1,))).tolist()
    [1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        del args, kwargs
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` itself."""
        return input


@set_module("nn")
class Flatten(Module):
    """Flattens the dimensions from `start_dim` to `end_dim`. The output is a view if the layout allows it.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Flatten()(tensor.ones((5, 2, 3))).shape
    (5, 6)
    """

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


@set_module("nn")
class Unflatten(Module):
    """Splits dimension `dim` into the sizes `unflattened_size`. One size may be -1.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Unflatten(1, (2, 3))(tensor.ones((5, 6))).shape
    (5, 2, 3)
    """

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
