"""Copies by Python's own means: copy, deepcopy, pickle.

A pickle holds values, dtype and ``requires_grad``, as PyTorch's does: no gradients, no history. Tensors on
one storage that are pickled together share it again; each brings the whole storage. Unpickled tensors
register with the current scope, and have memory of their own: it is counted, and limits hold. Shapes, strides
and sizes of a pickle are checked before memory is taken: a broken one raises ``pickle.UnpicklingError``. But
like any pickle it may call any function: load only what you trust, or use `save_file`.
"""

from __future__ import annotations

import sys
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary, ref

import numpy as np

from tensor._dtypes import Array, is_inexact, require_supported
from tensor._errors import shown
from tensor.core.storage import on_same_storage, snapshot, snapshot_block
from tensor.core.tensor import TensorCore, view_of, wrap, wrap_snapshot, wrap_snapshot_unowned
from tensor.io.spans import is_within
from tensor.memory.buffer import copy
from tensor.tape.nodes import Leaf, become_leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._tensor import Tensor


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
        copied = memo[id(self)] = wrap_snapshot(self)
        if node is not None:
            become_leaf(copied)
            gradient = self._grad
            if gradient is not None and not gradient.is_invalid:
                copied._grad = wrap_snapshot_unowned(gradient)
        return copied  # type: ignore[return-value]  # subclasses bring their own

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        array, requires_grad = self._array, self._node is not None
        if array is None:
            self._raise_disposed()
        buffer = self._buffer
        if len(on_same_storage(self)) == 1 or not buffer.root.flags.forc:
            return _rebuilt, (snapshot(self), requires_grad)
        offset = _address(array) - _address(buffer.root)
        # One block object in a pickle, whose memo finds it again: what shared memory shares it afterwards.
        block = _block_of(self)
        return _rebuilt_view, (block, array.dtype, array.shape, array.strides, offset, requires_grad)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Block:
    """The memory that several tensors share, in a pickle and on its way into one and out of it."""

    def __init__(self, memory: Array | None, tensor: TensorCore | None) -> None:
        # On the way out of a pickle: the bytes, and the tensors over them so far.
        self.memory = memory
        self.tensors: list[ref[TensorCore]] = []
        # On the way into one: a tensor over it, held so that its id stays its own.
        self.tensor = tensor

    def __reduce__(self) -> tuple[Callable[..., Block], tuple[Array]]:
        # As bytes in the order of memory, in which strides and offsets stay what they are.
        memory = self.memory if self.tensor is None else snapshot_block(self.tensor)
        if memory is None:
            raise ValueError("a block without memory can't be pickled")
        return _block, (memory.ravel(order="K").view(np.uint8),)


# Those on their way into a pickle, by the ids of the tensors that they hold.
_blocks: WeakValueDictionary[int, Block] = WeakValueDictionary()


def _block_of(x: TensorCore) -> Block:
    """Return the block of the storage of `x`: the same one as long as a pickle's memo holds it."""
    for other in on_same_storage(x):
        block = _blocks.get(id(other))
        if block is not None and block.tensor is other:
            return block
    block = _blocks[id(x)] = Block(None, x)
    return block


def _rebuilt(array: object, requires_grad: object) -> Tensor:
    values = _require_array(array)
    _require_flag(values, requires_grad)
    return _leaf(wrap(copy(values)), requires_grad)


def _leaf(x: Tensor, requires_grad: object) -> Tensor:
    if requires_grad:
        become_leaf(x)
    return x


def _rebuilt_view(
    block: object, dtype: object, shape: object, strides: object, offset: object, requires_grad: object
) -> Tensor:
    memory = block.memory if isinstance(block, Block) else None
    if not isinstance(block, Block) or memory is None:
        raise _broken(f"{type(block).__name__} instead of a block of memory")
    if not isinstance(dtype, np.dtype) or type(offset) is not int:
        raise _broken(f"dtype {shown(dtype)}, offset {shown(offset)}")
    require_supported(dtype)
    sizes, steps = _integers(shape), _integers(strides)
    if not is_within(memory.nbytes, dtype.itemsize, sizes, steps, offset):
        raise _broken(f"shape {sizes}, strides {steps} from byte {offset} of {memory.nbytes}")
    array: Array = np.ndarray(sizes, dtype, memory, offset, steps)
    _require_flag(array, requires_grad)
    others = [x for x in [found() for found in block.tensors] if x is not None and not x.is_invalid]
    x = view_of(others[0], others[0]._array, array) if others else wrap(array)
    block.tensors.append(ref(x))
    return _leaf(x, requires_grad)


def _integers(found: object) -> tuple[int, ...]:
    if type(found) is not tuple or any(type(n) is not int or abs(n) > sys.maxsize for n in found):
        raise _broken(f"{shown(found)} instead of integers")
    return found


def _require_array(array: object) -> Array:
    if type(array) is not np.ndarray:
        raise _broken(f"{type(array).__name__} instead of an array")
    require_supported(array.dtype)
    return array


def _require_flag(array: Array, requires_grad: object) -> None:
    if type(requires_grad) is not bool or (requires_grad and not is_inexact(array.dtype)):
        raise _broken(f"a tensor of {array.dtype} with requires_grad={requires_grad!r}")


def _broken(what: str) -> UnpicklingError:
    return UnpicklingError(f"this pickle of a tensor is broken, or was changed: it has {what}")


def _block(memory: object) -> Block:
    # A copy, which is counted: of a buffer out of band (protocol 5) others may write to the original.
    given = _require_array(memory).reshape(-1).view(np.uint8)
    return Block(copy(given), None)
