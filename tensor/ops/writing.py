"""Writes to a whole tensor: fill, zero, copy. Also the errors of in-place writes that are impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensor._dtypes import Array, fits
from tensor._errors import InvalidArgumentError
from tensor.ops.dispatch import overwrite
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
