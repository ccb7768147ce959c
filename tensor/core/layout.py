"""Methods for the shape, strides and address of a tensor."""

from __future__ import annotations

from typing import overload

from tensor._devices import CPU, Device
from tensor._dtypes import Array, is_floating
from tensor.core.dims import dim_of
from tensor.core.tensor import TensorCore
from tensor.core.untyped_storage import UntypedStorage


class Layout(TensorCore):
    """Base class of tensors with methods for sizes, strides and addresses."""

    __slots__ = ()

    @overload
    def size(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the shape, or the size of dimension `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).size(), tensor.zeros((2, 3)).size(-1)
        ((2, 3), 3)
        """
        shape: tuple[int, ...] = self._whole().shape
        return shape if dim is None else shape[dim_of("size", dim, len(shape))]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._whole().ndim

    def dim(self) -> int:
        """Return the number of dimensions.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).dim()
        2
        """
        return self._whole().ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).numel()
        6
        """
        return self._whole().size

    nelement = numel

    @property
    def itemsize(self) -> int:
        """The size of one element in bytes."""
        return self._whole().itemsize

    def element_size(self) -> int:
        """Return the size of one element in bytes.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).element_size()
        4
        """
        return self._whole().itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes. Views and clones may share this memory."""
        return self._whole().nbytes

    @property
    def device(self) -> Device:
        """The device of the memory: ``"cpu"``, with PyTorch's ``device.type``."""
        self._raise_if_disposed()
        return CPU

    def data_ptr(self) -> int:
        """Return the address of the first element. A write may move the memory.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2, 3))
        >>> x[1].data_ptr() - x.data_ptr()
        12
        """
        address: int = self._whole().__array_interface__["data"][0]
        return address

    def untyped_storage(self) -> UntypedStorage:
        """Return the block of memory of the tensor and its views, to read its size, address and bytes.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2, 3))
        >>> x[1].untyped_storage().nbytes()
        24
        """
        self._raise_if_disposed()
        return UntypedStorage(self)

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the strides in elements, or the stride of dimension `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).stride(), tensor.zeros((2, 3)).T.stride()
        ((3, 1), (1, 3))
        """
        array = self._whole()
        strides = tuple([n // array.itemsize for n in array.strides])
        return strides if dim is None else strides[dim_of("stride", dim, array.ndim)]

    def is_contiguous(self) -> bool:
        """Return whether the elements are contiguous in memory, in C order.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).is_contiguous(), tensor.zeros((2, 3)).T.is_contiguous()
        (True, False)
        """
        return self._whole().flags.c_contiguous

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a floating point dtype.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).is_floating_point()
        True
        """
        return is_floating(self._whole().dtype)

    def is_complex(self) -> bool:
        """Return whether the dtype is complex.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).is_complex()
        False
        """
        return self._whole().dtype.kind == "c"

    def _whole(self) -> Array:
        array = self._array
        if array is None:
            self._raise_disposed()
        return array
