"""The op that multiplies a tensor by sparse matrices along axes, for average pooling and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensor import Tensor
from tensor._dtypes import Array
from tensor.kernels import AxisMatrix, multiply_axes
from tensor.ops.dispatch import apply
from tensor.tape.rules.table import define

__all__ = ["AxisMatrix", "multiply_along"]

Maps = tuple[tuple[int, AxisMatrix], ...]


def _backward(xp: Any, g: Any, maps: Maps) -> Any:
    back = [(axis, along.transposed) for axis, along in maps]
    return multiply_along(g, back) if xp.is_recorded else multiply_axes(g, back)


_RULE = define("axis_matrix", input=_backward)


def multiply_along(input: Tensor, maps: Sequence[tuple[int, AxisMatrix]]) -> Tensor:
    """Return the floating `input`, multiplied by each matrix along its axis. No axis is negative."""

    def kernel(x: Array) -> Array:
        return multiply_axes(x, maps)

    return apply(_RULE, kernel, (input,), maps=tuple(maps))
