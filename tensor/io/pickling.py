"""Copies by Python's own means: copy, deepcopy, pickle.

A pickle holds values, dtype and ``requires_grad``, as PyTorch's does: no gradients, no history. Tensors on
one storage that are pickled together share it again; each brings the whole storage. Unpickled tensors
register with the current scope, and have memory of their own: it is counted, and limits hold. What a pickle
says is checked before memory is laid out by it: a broken one raises ``pickle.UnpicklingError``. But like any
pickle it may call any function: load only what you trust, or use `save_file`.
"""

from __future__ import annotations

import copyreg
import sys
from math import prod
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensor._dtypes import is_inexact, require_supported
from tensor._errors import shown
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
from tensor.kernels.placing import copy
from tensor.memory.books import owner_of
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


def _rebuilt(array: object, requires_grad: object) -> Tensor:
    values = copy(_require_array(array))
    return _leaf(values, requires_grad, hold_for(values))


def _leaf(array: Array, requires_grad: object, hold: Hold) -> Tensor:
    if type(requires_grad) is not bool or (requires_grad and not is_inexact(array.dtype)):
        raise _broken(f"a tensor of {array.dtype} with requires_grad={shown(requires_grad)}")
    return wrap_leaf(array, hold) if requires_grad else wrap_with(array, None, hold)


def _rebuilt_view(
    storage: object, dtype: object, shape: object, strides: object, offset: object, requires_grad: object
) -> Tensor:
    if not isinstance(storage, Storage):
        raise _broken(f"{type(storage).__name__} instead of a storage")
    if not isinstance(dtype, np.dtype) or type(offset) is not int:
        raise _broken(f"dtype {shown(dtype)}, offset {shown(offset)}")
    require_supported(dtype)
    sizes, steps = _integers(shape), _integers(strides)
    if len(sizes) != len(steps) or min(sizes, default=0) < 0:
        raise _broken(f"shape {shown(shape)}, strides {shown(strides)}")
    # Python's integers, which don't overflow, and before NumPy sees any of them.
    spans = [(n - 1) * step for n, step in zip(sizes, steps, strict=True)] if 0 not in sizes else []
    first = offset + sum([span for span in spans if span < 0])
    end = offset + sum([span for span in spans if span > 0]) + (0 if 0 in sizes else dtype.itemsize)
    if first < 0 or end > storage.block.nbytes or prod([n for n in sizes if n]) > sys.maxsize:
        raise _broken(f"shape {sizes}, strides {steps} from byte {offset} of {storage.block.nbytes}")
    array: Array = np.ndarray(sizes, dtype, storage.block, offset, steps)
    other = next(storage.holders(), None)
    x = _leaf(array, requires_grad, hold_for(array) if other is None else shared_hold(other))
    join(storage, x)
    return x


def _integers(found: object) -> tuple[int, ...]:
    if type(found) is not tuple or any(type(n) is not int or abs(n) > sys.maxsize for n in found):
        raise _broken(f"{shown(found)} instead of integers")
    return found


def _require_array(array: object) -> Array:
    if type(array) is not np.ndarray:
        raise _broken(f"{type(array).__name__} instead of an array")
    require_supported(array.dtype)
    return array


def _broken(what: str) -> UnpicklingError:
    return UnpicklingError(f"this pickle of a tensor is broken, or was changed: it has {what}")


def _reduced(storage: Storage) -> tuple[Callable[..., Storage], tuple[Array]]:
    # As bytes in the order of memory, in which strides and offsets stay what they are.
    return _stored, (storage.block.ravel(order="K").view(np.uint8),)


def _stored(block: object) -> Storage:
    # A copy, which is counted: of a buffer out of band (protocol 5) others may write to the original.
    return Storage(owner_of(copy(_require_array(block).reshape(-1).view(np.uint8))))


copyreg.pickle(Storage, _reduced)
