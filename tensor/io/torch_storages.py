"""Storages in PyTorch's files: their kinds, and their bytes with the tensors over them.

Kinds are classes, because pickles refer to classes: `FloatStorage` here is ``torch.FloatStorage`` in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tensor import _dtypes as dtypes
from tensor._dtypes import Array, Dtype
from tensor._errors import shown
from tensor.core.tensor import TensorCore, view_of, wrap, wrap_mapped
from tensor.io.bounds import is_within
from tensor.io.unpickling import CheckpointError
from tensor.memory.buffer import External, copy

if TYPE_CHECKING:
    from tensor._tensor import Tensor

MAX_DIMENSIONS = 64


class StorageKind:
    """The dtype of a storage in a file, and its element size in bytes."""

    # None for bytes: each tensor over the storage has its own dtype.
    dtype: ClassVar[Dtype | None] = None
    itemsize: ClassVar[int] = 1

    @classmethod
    def tensor_dtype(cls) -> Dtype | None:
        """Return the dtype of tensors over such a storage; None for bytes."""
        return cls.dtype


class UntypedStorage(StorageKind):
    """Bytes. PyTorch uses it for dtypes that have no storage class."""


class BFloat16Storage(StorageKind):
    """bfloat16. Without ml_dtypes, values become float32: bfloat16 is the upper half of a float32."""

    dtype, itemsize = dtypes.float32, 2

    @classmethod
    def tensor_dtype(cls) -> Dtype | None:
        return dtypes.find_bfloat16() or cls.dtype


class HalfStorage(StorageKind):
    dtype, itemsize = dtypes.float16, dtypes.float16.itemsize


class FloatStorage(StorageKind):
    dtype, itemsize = dtypes.float32, dtypes.float32.itemsize


class DoubleStorage(StorageKind):
    dtype, itemsize = dtypes.float64, dtypes.float64.itemsize


class CharStorage(StorageKind):
    dtype, itemsize = dtypes.int8, dtypes.int8.itemsize


class ShortStorage(StorageKind):
    dtype, itemsize = dtypes.int16, dtypes.int16.itemsize


class IntStorage(StorageKind):
    dtype, itemsize = dtypes.int32, dtypes.int32.itemsize


class LongStorage(StorageKind):
    dtype, itemsize = dtypes.int64, dtypes.int64.itemsize


class ByteStorage(StorageKind):
    dtype, itemsize = dtypes.uint8, dtypes.uint8.itemsize


class BoolStorage(StorageKind):
    dtype, itemsize = dtypes.bool_, dtypes.bool_.itemsize


class ComplexFloatStorage(StorageKind):
    dtype, itemsize = dtypes.complex64, dtypes.complex64.itemsize


class ComplexDoubleStorage(StorageKind):
    dtype, itemsize = dtypes.complex128, dtypes.complex128.itemsize


_TYPED = (
    *(BFloat16Storage, HalfStorage, FloatStorage, DoubleStorage, CharStorage, ShortStorage, IntStorage),
    *(LongStorage, ByteStorage, BoolStorage, ComplexFloatStorage, ComplexDoubleStorage),
)
STORAGES: dict[str, type[StorageKind]] = {
    "torch.storage.UntypedStorage": UntypedStorage,
    **{f"torch.{kind.__name__}": kind for kind in _TYPED},
}
_KINDS: dict[Dtype, type[StorageKind]] = {kind.dtype: kind for kind in _TYPED[1:]}


def kind_of(dtype: Dtype) -> type[StorageKind] | None:
    """Return the kind of storage for a dtype; None for dtypes stored as bytes."""
    return BFloat16Storage if dtypes.is_bfloat16(dtype) else _KINDS.get(dtype)


class UInt16:
    """``torch.uint16`` in a file. Dtypes without a storage class are stored in untyped storages."""


class UInt32:
    """``torch.uint32`` in a file."""


class UInt64:
    """``torch.uint64`` in a file."""


NAME_OF: dict[Dtype, type] = {dtypes.uint16: UInt16, dtypes.uint32: UInt32, dtypes.uint64: UInt64}


class Storage:
    """The bytes of one storage, and the tensors over them."""

    def __init__(self, kind: type[StorageKind], memory: Array, is_swapped: bool) -> None:
        self.kind, self._memory, self._is_swapped = kind, memory, is_swapped
        # By dtype: the first tensor, and the memory with converted values.
        self._tensors: dict[Dtype, TensorCore] = {}
        self._converted: dict[Dtype, Array] = {}

    def tensor(self, dtype: Dtype, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
        """Return a tensor over the storage. Tensors over one storage share memory."""
        size = self.kind.itemsize if self.kind.dtype is not None else dtype.itemsize
        count = self._memory.nbytes // size
        if len(shape) > MAX_DIMENSIONS or not is_within(count, 1, shape, stride, offset):
            raise CheckpointError(
                f"a tensor of shape {shown(shape)} and strides {shown(stride)}, from element {shown(offset)} "
                f"on, exceeds its storage of {count:,} elements"
            )
        is_mapped = size == dtype.itemsize and not self._is_swapped
        memory = self._memory if is_mapped else self._converted_to(dtype, count)
        strides = tuple([dtype.itemsize * step for step in stride])
        array: Array = np.ndarray(shape, dtype, memory, dtype.itemsize * offset, strides)
        first = self._tensors.get(dtype)
        if first is not None and not first.is_invalid:
            return view_of(first, first._array, array)
        made = wrap_mapped(External(memory, memory.nbytes).over(array)) if is_mapped else wrap(array)
        self._tensors[dtype] = made
        return made

    def replace(self, x: TensorCore, successor: TensorCore) -> None:
        """Make later tensors share memory with `successor`, which took over the storage of `x`."""
        for dtype, first in self._tensors.items():
            if first is x:
                self._tensors[dtype] = successor

    def _converted_to(self, dtype: Dtype, count: int) -> Array:
        """Return new memory with the values as `dtype`, in native byte order."""
        known = self._converted.get(dtype)
        if known is None:
            native = np.dtype(np.uint16) if self.kind is BFloat16Storage else dtype
            given = self._memory[: count * native.itemsize].view(native)
            if self._is_swapped:
                given = given.view(native.newbyteorder()).astype(native)
            if self.kind is BFloat16Storage:
                is_widened = dtype == dtypes.float32  # bfloat16 is its upper half
                given = (given.astype(np.uint32) << 16 if is_widened else given).view(dtype)
            known = self._converted[dtype] = copy(given)
        return known
