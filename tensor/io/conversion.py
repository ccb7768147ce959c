"""Conversion of a tensor's values to Python numbers, lists and arrays."""

from __future__ import annotations

from typing import Any, NoReturn

from tensor._dtypes import Array
from tensor._errors import first_element
from tensor.core.storage import export
from tensor.core.tensor import TensorCore


class Conversion(TensorCore):
    """Base class of tensors with methods for conversion."""

    __slots__ = ()

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises
        ------
        ValueError
            If the tensor does not have exactly one element.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.5]).item()
        2.5
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.size != 1:
            self._raise_not_one("item()")
        return array.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers. Without dimensions, return a number.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        return array.tolist()

    def numpy(self, *, force: bool = False) -> Array:
        """Return an array over the tensor's memory, without a copy. A write to one changes both.

        The array stays valid after the tensor is disposed. A write through the array never changes a clone of
        the tensor.

        Parameters
        ----------
        force
            Whether to allow a tensor that requires grad.

        Raises
        ------
        RuntimeError
            If the tensor requires grad: the history would not include writes through the array.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2,))
        >>> x.numpy()[0] = 5
        >>> x.tolist()
        [5.0, 0.0]
        """
        self._raise_if_disposed()
        if self._node is not None and not force:
            raise RuntimeError(
                "can't convert a tensor that requires grad to an array: its history would not include writes "
                "through the array. Use x.detach().numpy()"
            )
        return export(self)

    def __bool__(self) -> bool:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.size != 1:
            self._raise_not_one("bool()", ", x.any(), x.all()")
        return bool(array.item())

    def __int__(self) -> int:
        return int(self._one("int()"))

    def __float__(self) -> float:
        return float(self._one("float()"))

    def __complex__(self) -> complex:
        return complex(self._one("complex()"))

    def __index__(self) -> int:
        value = self._one("index()")
        if not isinstance(value, int):
            raise TypeError(f"an index must be an integer, not {value}: write int(x), or x.long()")
        return int(value)

    def _one(self, use: str) -> Any:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.size != 1:
            self._raise_not_one(use)
        return array.item()

    def _raise_not_one(self, use: str, hint: str = "") -> NoReturn:
        shape = self._live_array().shape
        advice = "check x.numel() first"
        if 0 not in shape:
            advice = (
                f"select one ({first_element(shape)}), reduce the tensor (x.sum(){hint}), or write x.tolist()"
            )
        raise ValueError(f"{use} takes a tensor of one element, not of shape {shape}: {advice}")
