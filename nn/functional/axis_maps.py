"""Linear maps along axes as one op, for average pools, resampling and local sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.kernels import AxisMap, map_axes
from tensor.lowlevel import apply, define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.lowlevel import Array

__all__ = ["AxisMap", "map_along"]

Maps = tuple[tuple[int, AxisMap], ...]


def _backward(xp: Any, g: Any, maps: Maps) -> Any:
    back = [(axis, along.transposed) for axis, along in maps]
    return map_along(g, back) if xp.is_recorded else map_axes(g, back)


_RULE = define("axis_map", input=_backward)


def map_along(input: Tensor, maps: Sequence[tuple[int, AxisMap]]) -> Tensor:
    """Return `input`, floating, mapped along each of some axes, counted from the front."""

    def kernel(x: Array) -> Array:
        return map_axes(x, maps)

    return apply(_RULE, kernel, (input,), maps=tuple(maps))
