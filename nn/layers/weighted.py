"""The base classes of layers with parameters."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensor as tn
from nn import init
from nn.layers.described import Described
from nn.module.parameter import Parameter
from tensor.lowlevel import DtypeLike, InvalidArgumentError, require_cpu, shown

Shape = tuple[int, ...]


def new_parameter(shape: Shape, dtype: DtypeLike | None) -> Parameter:
    """Return a parameter of zeros, for a layer to initialize."""
    return Parameter(tn.zeros(shape, dtype=dtype))


def require_size(layer: str, argument: str, size: int) -> None:
    """Raise ValueError unless `size` is an integer of at least 0."""
    if type(size) is not int or size < 0:
        raise InvalidArgumentError(f"{layer}: {argument} must be an integer of at least 0, not {shown(size)}")


class Weighted(Described):
    """Base class of layers with parameters. Most have a weight and a bias."""

    # The options that are numbers of elements.
    _sizes: ClassVar[tuple[str, ...]] = ()
    _texts: ClassVar = {
        "bias": "Whether to add a bias.",
        "dtype": "The dtype of the parameters; float32 for None.",
    }

    def __init__(self, device: str | None) -> None:
        super().__init__()
        require_cpu(device)

    def _set_options(self, given: dict[str, Any]) -> None:
        Weighted.__init__(self, given.pop("device"))
        dtype, has_bias = given.pop("dtype"), given.pop("bias", False)
        for name in self._sizes:
            require_size(type(self).__name__, name, given[name])
        for name, value in given.items():
            setattr(self, name, value)
        self._add_parameters(self._shapes(has_bias), dtype)
        self.reset_parameters()

    def _add_parameters(self, shapes: dict[str, Shape | None], dtype: DtypeLike | None) -> None:
        """Register parameters of these shapes. None registers no parameter."""
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else new_parameter(shape, dtype))

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        """Return the shape of each parameter, or None for no parameter."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        raise NotImplementedError


class Uniform(Weighted):
    """Base class of layers whose parameters are initialized uniformly within +-1 / sqrt(fan_in)."""

    weight: Parameter
    bias: Parameter | None

    def _fan_in(self) -> int:
        return math.prod(self.weight.shape[1:])

    def reset_parameters(self) -> None:
        """Initialize both parameters uniformly within +-1 / sqrt(fan_in), as PyTorch does."""
        fan_in = self._fan_in()
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)


class Scaling(Weighted):
    """Base class of layers that scale by a weight, initially 1."""

    weight: Parameter | None

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        for name, parameter in self.named_parameters(recurse=False):
            init.constant_(parameter, 1.0 if name == "weight" else 0.0)


class Affine(Scaling):
    """Base class of layers that scale by a weight, initially 1, and shift by a bias, initially 0."""

    bias: Parameter | None
