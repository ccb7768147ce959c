"""New tensors from data, from shapes, from ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._core import TensorCore, wrap
from tensor._dtypes import (
    Dtype,
    DtypeLike,
    as_dtype,
    complex64,
    complex128,
    float32,
    float64,
    is_inexact,
    require_supported,
)
from tensor._graph import Leaf
from tensor._storage import Array, borrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor._tensor import Tensor

Shape = int | tuple[int, ...] | list[int]


def tensor(data: object, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor with a copy of `data`.

    Parameters
    ----------
    data
        A number, nested lists of numbers, an array, or a tensor. Python floats give float32, integers
        int64; arrays keep their dtype.
    dtype
        The dtype of the result, in place of the one found.
    requires_grad
        Whether operations on the result are recorded for ``backward``.

    Raises
    ------
    ValueError
        If nested lists are ragged.
    TypeError
        If `data` holds what no tensor can hold, or a dtype that carries no gradients shall require them.

    Examples
    --------
    >>> import tensor
    >>> tensor.tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> tensor.tensor([1.0, 2.0]).dtype
    dtype('float32')
    """
    return finish(np.array(as_data(data, dtype), copy=True), requires_grad)


def as_data(data: object, dtype: DtypeLike | None) -> Array:
    """Return `data` as an array of a supported dtype; it may share the memory of `data`."""
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, TensorCore):
        data._raise_if_disposed()
        data = data._array
    if isinstance(data, (np.ndarray, np.generic)):
        found = require_supported(data.dtype)
        return np.asarray(data, dtype=found if wanted is None else wanted)
    try:
        array: Array = np.array(_plain_lists(data))
    except ValueError as error:
        raise ValueError(
            f"the nested lists are ragged: {error}. Lists at one depth need one length; pad the shorter ones, or "
            "keep a list of tensors"
        ) from None
    require_supported(array.dtype)
    if wanted is not None:
        return array.astype(wanted)
    return array.astype(_default_dtype(array.dtype, data))


def _plain_lists(data: object) -> object:
    if isinstance(data, TensorCore):
        data._raise_if_disposed()
        return data._array
    if isinstance(data, (list, tuple)):
        return [_plain_lists(item) for item in data]
    return data


def _default_dtype(found: Dtype, data: object) -> Dtype:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    if isinstance(data, (np.ndarray, np.generic, TensorCore)):
        return found
    return {float64: float32, complex128: complex64}.get(found, found)


def finish(array: Array, requires_grad: bool) -> Tensor:
    if not requires_grad:
        return wrap(array)
    if not is_inexact(array.dtype):
        raise TypeError(
            f"a tensor of {array.dtype} can't require gradients: only floating and complex ones can. Pass "
            "dtype=tensor.float32, or leave requires_grad out"
        )
    return wrap(array, Leaf(array.shape, array.dtype))


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in sizes:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
            raise ValueError(
                f"{shape!r} is no shape: sizes are integers of at least 0. Write zeros((2, 3)) or zeros(2)"
            )
    return tuple(int(n) for n in sizes)


def full(
    shape: Shape, fill_value: complex, *, dtype: DtypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor of `shape`, each element `fill_value`.

    Examples
    --------
    >>> import tensor
    >>> tensor.full((2,), 7).tolist()
    [7, 7]
    """
    value = as_data(fill_value, dtype)
    return finish(np.full(_shape(shape), value, value.dtype), requires_grad)


def zeros(shape: Shape, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor of `shape`, each element 0; float32 unless `dtype` says otherwise.

    Examples
    --------
    >>> import tensor
    >>> tensor.zeros((2, 3)).shape
    (2, 3)
    """
    return finish(np.zeros(_shape(shape), float32 if dtype is None else as_dtype(dtype)), requires_grad)


def ones(shape: Shape, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor of `shape`, each element 1; float32 unless `dtype` says otherwise.

    Examples
    --------
    >>> import tensor
    >>> tensor.ones((2,)).tolist()
    [1.0, 1.0]
    """
    return finish(np.ones(_shape(shape), float32 if dtype is None else as_dtype(dtype)), requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor over the memory of `array`, without a copy: both see each other's writes.

    The tensor holds `array`. Over a read-only array the first write makes a private copy.

    Examples
    --------
    >>> import numpy, tensor
    >>> array = numpy.zeros(2)
    >>> x = tensor.from_numpy(array)
    >>> array[0] = 5
    >>> x.tolist()
    [5.0, 0.0]
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy() takes a numpy.ndarray, not {type(array).__name__}: write tensor.tensor(data) to copy data"
        )
    if array.dtype != require_supported(array.dtype):
        raise ValueError(
            f"from_numpy() can't share memory of byte order {array.dtype.str!r}: write tensor.tensor(array) to copy it"
        )
    x = wrap(array.view(np.ndarray))
    borrow(x)
    return x


def as_tensor(x: object, like: Sequence[TensorCore] = ()) -> Tensor:
    """Return `x` itself when it is a tensor, else a new tensor with its data."""
    if isinstance(x, TensorCore):
        return x  # type: ignore[return-value]  # every core made is a Tensor
    return tensor(x)
