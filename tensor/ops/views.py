"""Views in another shape."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tensor._errors import InvalidArgumentError
from tensor.core.dims import fill_in, sizes_of
from tensor.kernels.context import run_kernel
from tensor.ops.dispatch import over
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._dtypes import Array
    from tensor._tensor import Tensor
    from tensor.core.tensor import TensorCore

_RESHAPE = RULES["reshape"]


def is_view(out: Array, array: Array) -> bool:
    """Tell whether `out`, found in `array`, lies over its memory: NumPy may have needed a copy."""
    base = out.base
    return base is array or (base is not None and base is array.base)


def reshaped(x: TensorCore, shape: tuple[object, ...], copy: bool | None) -> Tensor:
    """Return `x` in the shape of ``f(2, 3)`` or ``f((2, 3))``."""
    array = x._array
    if array is None:
        x._raise_disposed()
    given = shape if len(shape) != 1 or type(shape[0]) is not tuple else shape[0]
    out = array
    if array.flags.c_contiguous:
        # NumPy sees what is wrong sooner than we do. It takes any negative size for -1.
        try:
            out = array.reshape(given)
        except (TypeError, ValueError):
            out = array
        else:
            if out.shape != given and -1 not in given:
                out = array
    if out is array:
        sizes = sizes_for(array.shape, shape)
        out = run_kernel(array.reshape, sizes)
    if copy is False and not is_view(out, array):
        strides = tuple([n // array.itemsize for n in array.strides])
        raise InvalidArgumentError(
            f"shape {array.shape} with strides {strides} has no view of shape {out.shape}: its "
            "elements do not lie in that order. Use x.reshape(...), which copies where it must, or "
            "x.contiguous() before"
        )
    return over(x, array, out, _RESHAPE)


def sizes_for(before: tuple[int, ...], shape: tuple[object, ...]) -> tuple[int, ...]:
    """Return the sizes of ``f(2, 3)`` or ``f((2, 3))``, -1 filled in."""
    return fill_in("reshape", sizes_of("reshape", shape), prod(before), before)
