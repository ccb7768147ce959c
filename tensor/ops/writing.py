"""Writes to a whole tensor: fill, zero, copy. Also the errors of in-place writes that are impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from tensor._dtypes import Array, fits
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import operand, overwrite, write_plainly
from tensor.ops.messages import Operand, explain, foreign
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def of_other_dtype(name: str, found: object, array: Array) -> TypeError:
    """Return the error for an in-place write of a result with dtype `found`, which does not fit `array`."""
    return TypeError(
        f"{name}_: the result is {found}, which does not fit the tensor's {array.dtype}: a write in place "
        f"can't change the dtype. Convert the tensor first (x.float()), or write x = x.{name}(...)"
    )


def become(name: str, x: Tensor, new: Tensor) -> Tensor:
    """Write `new`, the result of the op `name` on `x`, to `x`."""
    array, values = x._array, new._array
    if array is None or values is None:
        x._raise_disposed()
    if values.shape != array.shape:
        raise InvalidArgumentError(
            f"{name}_: the result has shape {values.shape}, but a write in place can't grow the tensor, "
            f"whose shape is {array.shape}. Write x = x.{name}(...) instead"
        )
    if not fits(values.dtype, array.dtype):
        raise of_other_dtype(name, values.dtype, array)
    del array
    return overwrite(RULES["copy"], x, lambda target: np.copyto(target, values, casting="unsafe"), (x, new))


class Writing(TensorCore):
    """Methods that replace all values of the tensor."""

    __slots__ = ()

    # The integer that nan becomes depends on the machine, as in PyTorch.

    def fill_(self, value: Operand) -> Self:
        """Set each element to `value`, a number or a tensor of one element, cast to the tensor's dtype.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).fill_(3).tolist()
        [3.0, 3.0]
        """
        given = operand(value)
        if isinstance(given, np.ndarray):
            if given.size != 1:
                raise InvalidArgumentError(
                    f"fill_ takes one value, not shape {given.shape}: write copy_ for a whole tensor"
                )
            return self.copy_(as_tensor(value).reshape(()))
        if given is NotImplemented:
            raise foreign("fill_", value)

        def write(array: Array) -> None:
            try:
                array.fill(given)
            except (TypeError, ValueError, OverflowError) as error:
                raise explain("fill_", error, (array, given)) from None

        if self._node is None:
            self._raise_if_disposed()
            write_plainly(self, write)
        else:
            overwrite(RULES["fill"], as_tensor(self), write, (self,))
        return self

    def zero_(self) -> Self:
        """Set each element to 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).zero_().tolist()
        [0.0, 0.0]
        """
        return self.fill_(0)

    def copy_(self, source: Operand) -> Self:
        """Write the values of `source`, which broadcasts and is cast to the tensor's dtype.

        Raises
        ------
        TypeError
            If `source` is complex and the tensor is not.
        ValueError
            If the shape of `source` does not broadcast to the tensor's.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).copy_(tensor.tensor([1, 2])).tolist()
        [1.0, 2.0]
        """
        given = operand(source)
        if given is NotImplemented:
            raise foreign("copy_", source)
        array = self._array
        if array is None:
            self._raise_disposed()
        _require_copy(array, np.asarray(given))
        del array, given

        def write(target: Array) -> None:
            np.copyto(target, operand(source), casting="unsafe")

        overwrite(RULES["copy"], as_tensor(self), write, (self, source))
        return self


def _require_copy(array: Array, given: Array) -> None:
    if given.dtype.kind == "c" and array.dtype.kind != "c":
        raise TypeError(
            f"copy_: complex values don't fit a tensor of {array.dtype}: take their .real or .abs() first"
        )
    try:
        fits = np.broadcast_shapes(array.shape, given.shape) == array.shape
    except ValueError:
        fits = False
    if not fits:
        raise InvalidArgumentError(
            f"copy_: shape {given.shape} does not broadcast to the tensor's {array.shape}"
        )
