"""Sort, select the largest elements, and search in sorted tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of
from tensor.core.promotion import widen
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_data, as_tensor

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort `x` along `axis`. NaN counts as the largest.

    The sort is always stable, even if `stable` is False: equal elements keep their order.

    Examples
    --------
    >>> import tensor
    >>> tensor.argsort(tensor.tensor([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    del stable
    array = keys_of(x)
    place = dim_of("argsort", axis, array.ndim or 1)
    return wrap(run_kernel(order_of, array, place, descending) if array.ndim else np.zeros((), np.int64))


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements of `x`, sorted along `axis`. NaN counts as the largest.

    Examples
    --------
    >>> import tensor
    >>> tensor.sort(tensor.tensor([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    return as_tensor(x).sort(axis, descending, stable).values


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Return the index in the sorted `x1` at which to insert each element of `x2`.

    Parameters
    ----------
    x1
        A sorted vector, or sorted rows. For rows, all sizes except the last are those of `x2`, and each row
        of `x2` is searched in one row of `x1`.
    side
        Insert before (``"left"``) or after (``"right"``) equal elements.
    sorter
        If `x1` is not sorted: the indices that sort it, in its shape.

    Examples
    --------
    >>> import tensor
    >>> tensor.searchsorted(tensor.tensor([1, 3, 5]), tensor.tensor([0, 3, 9])).tolist()
    [0, 1, 3]
    """
    rows, values, order = keys_of(x1), keys_of(x2), None if sorter is None else array_of(sorter)
    if side not in ("left", "right"):
        raise InvalidArgumentError(f"searchsorted: side must be 'left' or 'right', not {shown(side)}")
    if order is not None and order.shape != rows.shape:
        raise InvalidArgumentError(
            f"searchsorted: sorter must have an index for each element, shape {rows.shape}, not {order.shape}"
        )
    if rows.ndim == 1:
        return wrap(np.asarray(run_kernel(np.searchsorted, rows, values, side, order)))
    if rows.ndim == 0 or rows.shape[:-1] != values.shape[:-1]:
        raise InvalidArgumentError(
            "searchsorted takes sorted values in one dimension, or in rows that match the rows of the other "
            f"tensor, not shape {rows.shape} for values of shape {values.shape}"
        )
    return wrap(run_kernel(_search_rows, rows, values, side, order))


def order_of(array: Array, place: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(array, place, kind="stable")
    # Sort the flipped array and flip the order: the largest first, and equal elements keep their order.
    order = np.argsort(np.flip(array, place), place, kind="stable")
    last = np.intp(array.shape[place] - 1)
    return np.asarray(last - np.flip(order, place))


def _search_rows(rows: Array, values: Array, side: Literal["left", "right"], order: Array | None) -> Array:
    found = np.empty(values.shape, np.int64)
    for at in np.ndindex(rows.shape[:-1]):
        found[at] = np.searchsorted(rows[at], values[at], side, None if order is None else order[at])
    return found


def keys_of(x: object) -> Array:
    """Return the array to sort by: NumPy's sort of bfloat16 puts nan first, so those become float32."""
    return np.asarray(widen(array_of(x)))


def array_of(x: object) -> Array:
    """Return the array of a tensor, or other data as an array."""
    if isinstance(x, TensorCore):
        array = x._array
        if array is None:
            x._raise_disposed()
        return array
    return as_data(x, None)
