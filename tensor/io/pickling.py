"""Copies by Python's own means: copy, deepcopy, pickle.

A pickle holds values, dtype and ``requires_grad``, as PyTorch's does: no gradients, no history. Tensors on
one storage that are pickled together share it again; each brings the whole storage. Unpickled tensors
register with the current scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensor._dtypes import Dtype
from tensor.core.storage import Array, Hold, Storage, join, shared_hold
from tensor.core.tensor_core import (
    TensorCore,
    gradient_of,
    hold_for,
    wrap_claim,
    wrap_claim_unowned,
    wrap_leaf,
    wrap_with,
)
from tensor.tape.nodes import Leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.tensor import Tensor


class Pickling(TensorCore):
    """What `copy` and `pickle` ask."""

    __slots__ = ()

    def __copy__(self) -> Self:
        """Return another tensor on the same storage: an `alias`; of a leaf that requires grad, a leaf."""
        self._raise_if_disposed()
        if isinstance(self._node, Leaf):
            return self.detach().requires_grad_()  # type: ignore[attr-defined,no-any-return]  # every core is a Tensor
        return self.alias()  # type: ignore[attr-defined,no-any-return]  # every core is a Tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a leaf with the same values, memory of its own, and a copy of the gradient.

        Views that share memory do not share it in the copy. A recorded op's result can't be copied so.
        """
        known = memo.get(id(self))
        if known is not None:
            return known  # type: ignore[no-any-return]  # the memo holds what this returned before
        self._raise_if_disposed()
        node = self._node
        if node is not None and not isinstance(node, Leaf):
            raise RuntimeError(
                f"only leaves can be copied by deepcopy(), and this tensor was computed by {node.name()}: "
                "use x.clone(), which keeps its history, or copy x.detach()"
            )
        copied = memo[id(self)] = wrap_claim(self)
        if node is not None:
            copied._become_leaf()
            grad = gradient_of(self)
            if grad is not None:
                copied._grad = wrap_claim_unowned(grad)
        return copied  # type: ignore[return-value]  # subclasses bring their own

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        self._raise_if_disposed()
        seat, requires_grad = self._seat, self._node is not None
        array = self._array
        if array is None:
            self._raise_disposed()
        storage = None if seat is None else seat.storage
        if storage is None or not storage.is_shared() or not storage.block.flags.forc:
            return _rebuilt, (array, requires_grad)
        start = storage.block.__array_interface__["data"][0]
        offset = array.__array_interface__["data"][0] - start
        # One storage object in a pickle, whose memo finds it again: what shared memory shares it afterwards.
        return _rebuilt_view, (storage, array.dtype, array.shape, array.strides, offset, requires_grad)


def _rebuilt(array: Array, requires_grad: bool) -> Tensor:
    return _leaf(array, requires_grad, hold_for(array))


def _leaf(array: Array, requires_grad: bool, hold: Hold) -> Tensor:
    return wrap_leaf(array, hold) if requires_grad else wrap_with(array, None, hold)


def _rebuilt_view(
    storage: Storage,
    dtype: Dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    requires_grad: bool,
) -> Tensor:
    array: Array = np.ndarray(shape, dtype, storage.block, offset, strides)
    other = next(storage.holders(), None)
    x = _leaf(array, requires_grad, hold_for(array) if other is None else shared_hold(other))
    join(storage, x)
    return x
