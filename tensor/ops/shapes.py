"""Views with other shapes and other orders of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, dims_of, exchange, infer_sizes, order_of, sizes_of
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply, over
from tensor.ops.in_place import with_in_place
from tensor.ops.views import reshaped, sizes_for
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_EXPAND_DIMS = RULES["expand_dims"]
_PERMUTE_DIMS = RULES["permute_dims"]
_RESHAPE = RULES["reshape"]
_SQUEEZE = RULES["squeeze"]
# For each number of dimensions up to NumPy's limit of 64: the index that appends a dimension of size 1, and
# the dimensions in reverse order.
_UNSQUEEZE_INDICES = [(*[slice(None)] * n, None) for n in range(65)]
_REVERSED = [(tuple(range(n))[::-1],) for n in range(65)]


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
    return _in_order(as_tensor(x), sizes_of("permute", (axes,)))


def _in_order(x: TensorCore, axes: tuple[int, ...]) -> Tensor:
    array = x._array
    if array is None:
        x._raise_disposed()
    order = order_of(array.ndim, axes)
    if order is None:
        raise InvalidArgumentError(
            f"permute takes each of the {array.ndim} dimensions of shape {array.shape} once, not {axes}"
        )
    return over(x, array, array.transpose(order), _PERMUTE_DIMS, (order,))


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


@with_in_place(views="squeeze unsqueeze transpose swapaxes swapdims t")
class Shapes(TensorCore):
    """Methods that change the shape. Views share the memory."""

    __slots__ = ()

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Return the elements in another shape; a view if the memory layout allows it.

        Examples
        --------
        >>> import tensor
        >>> tensor.arange(6).reshape(2, -1).shape
        (2, 3)
        """
        return reshaped(self, shape, None)

    def view(self, *shape: int | Sequence[int]) -> Tensor:
        """Return a view in another shape. Raise a ValueError if that would need a copy.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).view(-1).shape
        (6,)
        """
        return reshaped(self, shape, False)

    def view_as(self, other: Tensor) -> Tensor:
        """Return a view in the shape of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).view_as(tensor.zeros((6,))).shape
        (6,)
        """
        return self.view(*other.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return the elements in the shape of `other`; a view if possible.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).reshape_as(tensor.zeros((6,))).shape
        (6,)
        """
        return self.reshape(other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Return the tensor with dimensions `start_dim` to `end_dim` flattened to one; a view if possible.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).flatten(1).shape
        (2, 12)
        """
        shape = self._shape() or (1,)
        if start_dim == 0 and end_dim == -1:
            return self.ravel()
        first = dim_of("flatten", start_dim, len(shape))
        last = dim_of("flatten", end_dim, len(shape))
        if first > last:
            raise InvalidArgumentError(
                f"flatten: start_dim={start_dim} must not be after end_dim={end_dim} in shape {shape}"
            )
        return self.reshape(*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])

    def ravel(self) -> Tensor:
        """Return the elements in one dimension, contiguous: a view if the tensor is, else a copy.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).ravel().shape
        (6,)
        """
        return reshaped(self, (-1,), None).contiguous()

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """Return a view with dimension `dim` split into `sizes`, of which one may be -1.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 12)).unflatten(1, (3, -1)).shape
        (2, 3, 4)
        """
        shape = self._shape()
        place = dim_of("unflatten", dim, len(shape))
        split = infer_sizes(
            "unflatten", sizes_of("unflatten", (tuple(sizes),)), shape[place], (shape[place],)
        )
        return self.reshape(*shape[:place], *split, *shape[place + 1 :])

    def permute(self, *dims: int | Sequence[int]) -> Tensor:
        """Return a view with the dimensions in the order `dims`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return _in_order(self, sizes_of("permute", dims))

    def transpose(self, dim0: int | tuple[int, ...] | None = None, dim1: int | None = None) -> Tensor:
        """Return a view with two dimensions exchanged, or with all dimensions in a given order, as in NumPy.

        Without arguments their order is reversed.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).transpose(0, 2).shape
        (4, 3, 2)
        >>> tensor.zeros((2, 3, 4)).transpose((1, 2, 0)).shape
        (3, 4, 2)
        """
        if dim1 is None:
            return self.T if dim0 is None else _in_order(self, sizes_of("transpose", (dim0,)))
        if dim0 is None or isinstance(dim0, (tuple, list)):
            raise TypeError("transpose takes two dimensions, or one tuple of all of them in their new order")
        array = self._array
        if array is None:
            self._raise_disposed()
        ndim = array.ndim
        first, second = dim_of("transpose", dim0, ndim or 1), dim_of("transpose", dim1, ndim or 1)
        order = exchange(ndim, first, second) if ndim else ()
        return over(self, array, array.transpose(order), _PERMUTE_DIMS, (order,))

    swapaxes = transpose
    swapdims = transpose

    def t(self) -> Tensor:
        """Return a view of a matrix with its dimensions exchanged, or of a vector or scalar unchanged.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).t().shape
        (3, 2)
        """
        ndim = len(self._shape())
        if ndim > 2:
            raise InvalidArgumentError(
                f"t() takes at most 2 dimensions, not shape {self._shape()}: use x.mT or x.transpose(...)"
            )
        return self.T

    @property
    def T(self) -> Tensor:  # noqa: N802 - the name that users know
        """A view with the dimensions in reverse order.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).T.shape
        (3, 2)
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        return over(self, array, array.T, _PERMUTE_DIMS, _REVERSED[array.ndim])

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the name that users know
        """A view with the last two dimensions exchanged.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).mT.shape
        (2, 4, 3)
        """
        return matrix_transpose(as_tensor(self))

    def movedim(self, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
        """Return a view with the dimensions `source` moved to `destination`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).movedim(0, -1).shape
        (3, 4, 2)
        """
        return moveaxis(as_tensor(self), source, destination)

    moveaxis = movedim

    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Tensor:
        """Return a view without the dimensions of size 1 among `dim`, or among all for None.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1, 3, 1)).squeeze().shape, tensor.zeros((1, 3, 1)).squeeze(0).shape
        ((3,), (3, 1))
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        shape = array.shape
        if dim is None:
            out = array.squeeze()
        elif type(dim) is int:
            # As in PyTorch, a tensor without dimensions takes 0 and -1.
            place = dim_of("squeeze", dim, len(shape) or 1)
            out = array.squeeze(place) if shape and shape[place] == 1 else array
        else:
            places = dims_of("squeeze", dim, len(shape) or 1)[: len(shape)]
            out = array.squeeze(tuple([i for i in places if shape[i] == 1]))
        if out is array:
            out = array.view()
        return over(self, array, out, _SQUEEZE)

    def unsqueeze(self, dim: int) -> Tensor:
        """Return a view with a new dimension of size 1 at index `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).unsqueeze(-1).shape
        (2, 3, 1)
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        return over(
            self, array, array[_UNSQUEEZE_INDICES[dim_of("unsqueeze", dim, array.ndim + 1)]], _EXPAND_DIMS
        )

    def contiguous(self) -> Tensor:
        """Return the tensor itself if it is contiguous, else a contiguous copy.

        A contiguous view that covers less than half of its memory is copied too.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).T.contiguous().stride()
        (2, 1)
        """
        x = as_tensor(self)
        if not x.is_contiguous():
            return reshape(x, x.shape, copy=True)
        return x.clone() if x._is_small_view else x

    def _shape(self) -> tuple[int, ...]:
        array = self._array
        if array is None:
            self._raise_disposed()
        shape: tuple[int, ...] = array.shape
        return shape
