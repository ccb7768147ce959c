"""Views by sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import view
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Striding(TensorCore):
    """Views by sizes and strides."""

    __slots__ = ()

    def as_strided(
        self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
    ) -> Tensor:
        """Return a view with these sizes and strides, counted in elements.

        The tensor must be contiguous, and must contain the view. `storage_offset` counts elements from the
        start of the tensor's memory. If several elements of the view are the same element of the tensor,
        their gradients are summed.

        Raises
        ------
        InvalidArgumentError
            If the tensor is not contiguous, or the view would reach beyond its elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.arange(4).as_strided((3, 2), (1, 1)).tolist()
        [[0, 1], [1, 2], [2, 3]]
        """
        x = as_tensor(self)
        sizes, steps = tuple(size), tuple(stride)
        if len(sizes) != len(steps) or any(n < 0 for n in (*sizes, *steps)):
            raise InvalidArgumentError(
                f"as_strided takes as many strides as sizes, all at least 0, not {sizes} and {steps}"
            )
        if not x.is_contiguous():
            raise InvalidArgumentError("as_strided takes a contiguous tensor: write x.contiguous()")
        first = 0 if storage_offset is None else storage_offset - _start(x)
        last = first + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        if first < 0 or (0 not in sizes and last >= x.numel()):
            raise InvalidArgumentError(
                f"as_strided: sizes {sizes}, strides {steps} and offset {storage_offset or 0} reach from "
                f"element {first} to {last}, but the tensor has {x.numel()} elements"
            )
        width = x.dtype.itemsize

        def make(a: Array) -> Array:
            flat = a.reshape(-1)[first:]
            return as_strided(flat, sizes, tuple(step * width for step in steps))

        places = np.full(sizes, first, np.intp)
        for axis, (n, step) in enumerate(zip(sizes, steps, strict=True)):
            places += (np.arange(n) * step).reshape([n if i == axis else 1 for i in range(len(sizes))])
        return view(RULES["as_strided"], make, x, places=places, shape=x.shape)


def _start(x: Tensor) -> int:
    """Return the number of elements in the memory of `x` before its first element."""
    buffer = x._buffer
    if buffer is None:
        return 0
    address: int = buffer.root.__array_interface__["data"][0]
    return (x.data_ptr() - address) // x.dtype.itemsize
