"""Support for copy, deepcopy and pickle.

As in PyTorch, a pickle holds values, dtype and ``requires_grad``, but no gradients and no history. Tensors
that share a storage and are pickled together share it again when loaded. A pickle of one of them holds the
whole storage too. Unpickled tensors register with the current scope. They have their own memory, which counts
towards the memory limit. Shapes, strides and sizes are checked before memory is allocated: a broken pickle
raises ``pickle.UnpicklingError``. But like any pickle, it can call any function: only load pickles that you
trust, or use `save_file`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import numpy as np

from tensor._dtypes import Array, is_inexact, require_supported
from tensor._errors import shown
from tensor.core.tensor import TensorCore, on_same_storage, snapshot, snapshot_block, view_of, wrap
from tensor.io.bounds import is_within
from tensor.memory.buffer import copy
from tensor.tape.recording import become_leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def reduced(x: TensorCore) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function that restores `x` from a pickle, and its arguments."""
    array, requires_grad = x._array, x._node is not None
    if array is None:
        x._raise_disposed()
    buffer = x._buffer
    if len(on_same_storage(x)) == 1 or not buffer.root.flags.forc:
        return _rebuilt, (snapshot(x), requires_grad)
    offset = _address(array) - _address(buffer.root)
    # The pickle's memo finds the same block object again, so that tensors share memory after loading.
    block = _block_of(x)
    return _rebuilt_view, (block, array.dtype, array.shape, array.strides, offset, requires_grad)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Block:
    """The memory that several tensors share, during pickling and unpickling."""

    def __init__(self, memory: Array | None, tensor: TensorCore | None) -> None:
        # When unpickling: the bytes, and the tensors created over them so far.
        self.memory = memory
        self.tensors: list[ref[TensorCore]] = []
        # When pickling: a tensor over the block, kept alive so that its id stays valid.
        self.tensor = tensor

    def __reduce__(self) -> tuple[Callable[..., Block], tuple[Array]]:
        # As bytes in memory order, so that strides and offsets stay valid.
        memory = self.memory if self.tensor is None else snapshot_block(self.tensor)
        if memory is None:
            raise ValueError("a block without memory can't be pickled")
        return _block, (memory.ravel(order="K").view(np.uint8),)


# The blocks being pickled, by the ids of their tensors.
_blocks: WeakValueDictionary[int, Block] = WeakValueDictionary()


def _block_of(x: TensorCore) -> Block:
    """Return the block of the storage of `x`. It is the same object while a pickle's memo holds it."""
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
    return UnpicklingError(f"this pickle of a tensor is broken or was modified: it has {what}")


def _block(memory: object) -> Block:
    # Copy the memory, because other code may write to an out-of-band buffer (protocol 5).
    given = _require_array(memory).reshape(-1).view(np.uint8)
    return Block(copy(given), None)
