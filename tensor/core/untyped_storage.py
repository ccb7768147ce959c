"""The memory of a tensor as bytes: PyTorch's ``UntypedStorage``, to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tensor._devices import CPU, Device
from tensor._dtypes import Array
from tensor.core.tensor import TensorCore, on_same_storage
from tensor.memory.buffer import Buffer, view_at


class UntypedStorage:
    """The block of memory in which a tensor, its views and its aliases are: ``x.untyped_storage()``.

    It can be read, not written or resized. It describes the memory that the tensor has at the time of a
    call: the first write to a tensor that shares memory with a clone moves the tensor to its own block. It
    keeps the tensor alive, but not after ``dispose()``.

    Storages of tensors that are views of each other are equal. A clone has its own storage, but the same
    address until one of the two is written to. The hash is that of the address, so it changes if the memory
    moves.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.zeros((2, 3))
    >>> storage = x[1].untyped_storage()
    >>> storage
    UntypedStorage(device=cpu, size=24)
    >>> storage == x.untyped_storage(), storage.data_ptr() == x.data_ptr()
    (True, True)
    """

    __slots__ = ("_x",)

    def __init__(self, x: TensorCore) -> None:
        if not isinstance(x, TensorCore):
            raise TypeError(
                f"UntypedStorage takes a tensor, not {type(x).__name__}: a storage belongs to a tensor. "
                "Write tensor.empty((n,), dtype=tensor.uint8).untyped_storage()"
            )
        self._x = x

    def nbytes(self) -> int:
        """Return the number of bytes: those of the whole block, also for a view of a part."""
        return self._buffer().nbytes

    size = nbytes
    __len__ = nbytes

    def element_size(self) -> int:
        """Return 1, the size of a byte."""
        return 1

    def data_ptr(self) -> int:
        """Return the address of the first byte, or 0 if there is none. A write may move the memory."""
        buffer = self._buffer()
        return _first(buffer) if buffer.nbytes else 0

    def tolist(self) -> list[int]:
        """Return a list of all bytes, as ints from 0 to 255."""
        values: list[int] = self._bytes().tolist()
        return values

    @property
    def device(self) -> Device:
        """The device of the memory: the CPU."""
        self._buffer()
        return CPU

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU: False."""
        return False

    def cpu(self) -> UntypedStorage:
        """Return this storage, which is on the CPU."""
        return self

    def resize_(self, size: int) -> NoReturn:
        """Raise a RuntimeError: a storage has the size of its tensor."""
        raise RuntimeError(
            f"resize_({size}): a storage can't be resized, because its tensor and views would lie outside of "
            "it. To free the memory, write x.dispose(); for more elements, create a tensor"
        )

    def __getitem__(self, index: int) -> int:
        """Return one byte."""
        if isinstance(index, slice):
            raise TypeError("a storage takes an int as its index: write storage.tolist()[a:b]")
        return int(self._bytes()[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        # Without a generator, because an interrupt would be lost while it is being closed.
        for x in on_same_storage(self._x):  # noqa: SIM110
            if x is other._x:
                return True
        return False

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        return f"UntypedStorage(device=cpu, size={self.nbytes()})"

    def _buffer(self) -> Buffer:
        self._x._live_array()  # moves a few elements that are stored in the tensor object, or in a file
        return self._x._buffer

    def _bytes(self) -> Array:
        buffer = self._buffer()
        root = buffer.root
        offset = _first(buffer) - int(root.__array_interface__["data"][0]) if buffer.nbytes else 0
        return view_at(root, offset, (buffer.nbytes,), (1,), np.dtype(np.uint8))


def _first(buffer: Buffer) -> int:
    # The root of external memory can have negative strides: then its first element is not there.
    return int(byte_bounds(buffer.root)[0])
