"""What layers with parameters share: new parameters, checks of sizes, initial values."""

from __future__ import annotations

import math

import tensor as tn
from nn import init
from nn.module.parameter import Parameter
from tensor import Tensor
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError, shown


def new_parameter(shape: tuple[int, ...], dtype: DtypeLike | None) -> Parameter:
    """Return a parameter of zeros, for a layer to initialize."""
    return Parameter(tn.zeros(shape, dtype=dtype))


def require_size(layer: str, argument: str, size: int) -> None:
    """Raise ValueError unless `size` is an integer of at least 0."""
    if type(size) is not int or size < 0:
        raise InvalidArgumentError(f"{layer}: {argument} must be an integer of at least 0, not {shown(size)}")


def init_uniform(weight: Tensor, bias: Tensor | None, fan_in: int) -> None:
    """Initialize both uniformly within +-1 / sqrt(fan_in), as PyTorch does."""
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


def init_affine(weight: Tensor | None, bias: Tensor | None) -> None:
    """Set the weight to 1 and the bias to 0."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
