"""Clearing gradients: they belong to their tensors, so they go when they are cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.lowlevel import Leaf, writable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


def clear_gradients(tensors: Iterable[Tensor], set_to_none: bool) -> None:
    """Dispose the gradients of `tensors`, or fill them with zeros."""
    for x in tensors:
        if x._array is None:
            x._raise_disposed()
        if type(x._node) is not Leaf:
            continue
        grad = x._grad
        if grad is None:
            continue
        if set_to_none or grad._array is None:
            x._grad = None
            grad.dispose()
        else:
            grad._node = None
            writable(grad).fill(0)
