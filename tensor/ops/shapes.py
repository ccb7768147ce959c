"""Views with other shapes and other orders of dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dims_of, order_of, sizes_of
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply, over, reshaped, sizes_for
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

PERMUTE_DIMS = RULES["permute_dims"]
_RESHAPE = RULES["reshape"]


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements of `x` in another shape, in the same order.

    Parameters
    ----------
    shape
        One size may be -1, to be computed.
    copy
        None returns a view if the memory layout allows it, else a copy. False raises an error instead of
        copying. True always copies.

    Raises
    ------
    ValueError
        If `shape` has another number of elements, or a view is impossible with ``copy=False``.

    Examples
    --------
    >>> import tensor
    >>> tensor.reshape(tensor.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    x = as_tensor(x)
    if not copy:
        return reshaped(x, (shape,), copy)
    sizes = sizes_for(x.shape, (shape,))
    return apply(_RESHAPE, lambda a: a.reshape(sizes).copy(order="C"), (x,))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return a view of `x` with its dimensions in the order `axes`.

    Examples
    --------
    >>> import tensor
    >>> tensor.permute_dims(tensor.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return in_order(as_tensor(x), sizes_of("permute", (axes,)))


def in_order(x: TensorCore, axes: tuple[int, ...]) -> Tensor:
    array = x._array
    if array is None:
        x._raise_disposed()
    order = order_of(array.ndim, axes)
    if order is None:
        raise InvalidArgumentError(
            f"permute takes each of the {array.ndim} dimensions of shape {array.shape} once, not {axes}"
        )
    return over(x, array, array.transpose(order), PERMUTE_DIMS, (order,))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Return a view of `x` with its last two dimensions exchanged.

    Examples
    --------
    >>> import tensor
    >>> tensor.matrix_transpose(tensor.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    x = as_tensor(x)
    if len(x.shape) < 2:
        raise InvalidArgumentError(
            f"matrix_transpose takes at least 2 dimensions, not shape {x.shape}: add some with unsqueeze"
        )
    return x.transpose(-2, -1)


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Return a view of `x` with the dimensions `source` moved to `destination`. Others keep their order.

    Examples
    --------
    >>> import tensor
    >>> tensor.moveaxis(tensor.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_tensor(x)
    ndim = len(x.shape)
    sources = dims_of("moveaxis", source, ndim or 1)
    places = dims_of("moveaxis", destination, ndim or 1)
    if len(sources) != len(places):
        raise InvalidArgumentError(f"moveaxis: {source} and {destination} must have equally many dimensions")
    if ndim == 0:
        return permute_dims(x, ())
    order = [i for i in range(ndim) if i not in sources]
    for place, dim in sorted(zip(places, sources, strict=True)):
        order.insert(place, dim)
    return permute_dims(x, tuple(order))


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Return a view of `x` without the dimensions `axis`, which must have size 1.

    Examples
    --------
    >>> import tensor
    >>> tensor.squeeze(tensor.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    x = as_tensor(x)
    places = dims_of("squeeze", axis, len(x.shape))
    for i in places:
        if x.shape[i] != 1:
            raise InvalidArgumentError(
                f"squeeze removes dimensions of size 1, but dimension {i} of shape {x.shape} has size "
                f"{x.shape[i]}"
            )
    return x.squeeze(places)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """Return a view of `x` with a new dimension of size 1 at position `axis` of the result, or several.

    Raises
    ------
    IndexError
        If a position is out of range.
    ValueError
        If a position occurs twice.

    Examples
    --------
    >>> import tensor
    >>> tensor.expand_dims(tensor.zeros((2, 3)), axis=1).shape
    (2, 1, 3)
    >>> tensor.expand_dims(tensor.zeros((2, 3)), axis=(0, -1)).shape
    (1, 2, 3, 1)
    """
    y = as_tensor(x)
    if isinstance(axis, tuple):
        for place in sorted(dims_of("expand_dims", axis, y.ndim + len(axis))):
            y = y.unsqueeze(place)
        return y if axis else y.alias()
    return y.unsqueeze(axis)
