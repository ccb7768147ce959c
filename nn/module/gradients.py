"""Clearing gradients: they belong to their tensors, so they go when they are cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.lowlevel import Leaf, TensorCore, writing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


def gradient_of(x: TensorCore) -> TensorCore | None:
    """Return the gradient that `x` has gathered; None where there is none, or an empty one."""
    gradient: TensorCore | None = x._grad
    return None if gradient is None or gradient.is_invalid else gradient


def clear_gradients(tensors: Iterable[Tensor], set_to_none: bool) -> None:
    """Dispose the gradients of `tensors`, or fill them with zeros."""
    for x in tensors:
        x._raise_if_disposed()
        if type(x._node) is not Leaf:
            continue
        grad = x._grad
        if grad is None:
            continue
        if set_to_none or grad.is_invalid:
            x._grad = None
            grad.dispose()
        else:
            grad._node = None
            with writing(grad) as array:
                array.fill(0)
