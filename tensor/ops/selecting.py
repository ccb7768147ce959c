"""Read and write elements by index tensors and masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_data, as_tensor
from tensor.ops.dispatch import apply, overwrite
from tensor.ops.indexing import Key
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# The smallest index that an op takes, if not 0. None allows negative indices, which count from the end.
_MIN_INDEX = {"index_fill": None}
_ADD_AT = RULES["add_at"]
_TAKE = RULES["take"]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return a copy of the slices of `x` along `axis` at `indices`.

    Parameters
    ----------
    axis
        Optional if `x` has one dimension.

    Raises
    ------
    IndexError
        If an index is out of range.

    Examples
    --------
    >>> import tensor
    >>> tensor.take(tensor.tensor([[1, 2, 3]]), tensor.tensor([2, 0]), axis=1).tolist()
    [[3, 1]]
    """
    x = as_tensor(x)
    shape = x.shape
    if axis is None and len(shape) != 1:
        raise InvalidArgumentError(f"take: a tensor of shape {shape} needs axis=")
    place = dim_of("take", 0 if axis is None else axis, len(shape))
    return taken(x, indices_of("take", indices, shape[place], place), place)


def taken(x: Tensor, where: Array, place: int) -> Tensor:
    return apply(_TAKE, lambda a: a.take(where, place), (x,), indices=where, axis=place, shape=x.shape)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return a copy of the elements of `x` at `indices` along `axis`, in the shape of `indices`.

    Parameters
    ----------
    indices
        As many dimensions as `x`. Sizes other than that of `axis` broadcast against those of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.take_along_axis(tensor.tensor([[3, 1], [2, 4]]), tensor.tensor([[0], [1]])).tolist()
    [[3], [4]]
    """
    x = as_tensor(x)
    shape = x.shape
    place = dim_of("take_along_axis", axis, len(shape))
    where = indices_of("take_along_axis", indices, shape[place], place)
    if where.ndim != len(shape):
        raise InvalidArgumentError(
            f"take_along_axis: indices of shape {where.shape} need the {len(shape)} dimensions of shape "
            f"{shape}"
        )
    return x[_key_along(where, shape, place)]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements: one int64 tensor for each dimension.

    Examples
    --------
    >>> import tensor
    >>> [i.tolist() for i in tensor.nonzero(tensor.tensor([[0, 5], [6, 0]]))]
    [[0, 1], [1, 0]]
    """
    array = array_for("nonzero", x)
    if array.ndim == 0:
        raise InvalidArgumentError("nonzero takes at least one dimension: reshape the tensor to (1,) first")
    return tuple([wrap(places.copy()) for places in np.nonzero(array)])


def argwhere(x: Tensor, /) -> Tensor:
    """Return the indices of nonzero elements: one row for each element.

    Examples
    --------
    >>> import tensor
    >>> tensor.argwhere(tensor.tensor([[0, 5], [6, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return wrap(run_kernel(np.argwhere, array_for("argwhere", x)).copy())


def array_for(op: str, x: object) -> Array:
    if isinstance(x, TensorCore):
        array = x._array
        if array is None:
            x._raise_disposed()
        return array
    try:
        return as_data(x, None)
    except TypeError as error:
        raise TypeError(f"{op}: {error}") from None


def mask_of(op: str, mask: object) -> Array:
    array = array_for(op, mask)
    if array.dtype.kind != "b":
        raise TypeError(
            f"{op} takes a mask of bool, not {array.dtype}: write a comparison (x > 0), or x.bool()"
        )
    return array


def indices_of(op: str, index: object, size: int, place: int, *, least: int | None = None) -> Array:
    """Return a copy of index values as an array. Raise an error if one is out of range.

    `least` is the smallest allowed index, by default ``-size``.
    """
    array = array_for(op, index)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{op} takes integer indices, not {array.dtype}: convert them with x.long()")
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < (-size if least is None else least) or high >= size:
            negative = least == 0 and low < 0 <= low + size
            raise IndexError(
                f"{op}: index {high if high >= size else low} is out of range for dimension {place} of size "
                f"{size}" + (f": it takes no negative indices, write {low + size}" if negative else "")
            )
    return array.astype(np.intp)


def at_least_1d(x: Tensor) -> Tensor:
    """Return `x`, or a view with one dimension if it has none."""
    return x.reshape(1) if x.ndim == 0 else x


def parts_along(op: str, x: TensorCore, dim: int, index: object) -> tuple[Tensor, Key]:
    """Return `x` with at least one dimension, and the key of its slices at `index` along `dim`."""
    line = at_least_1d(as_tensor(x))
    place = dim_of(op, dim, line.ndim)
    where = np.atleast_1d(indices_of(op, index, line.shape[place], place, least=_MIN_INDEX.get(op, 0)))
    if where.ndim > 1:
        raise InvalidArgumentError(f"{op} takes an index of one dimension, not shape {where.shape}")
    return line, Key.of((*[slice(None)] * place, where))


def _key_along(where: Array, sizes: tuple[int, ...], place: int) -> tuple[Any, ...]:
    """Return the key with `where` at dimension `place`, and all indices below `sizes` elsewhere."""
    ndim = len(sizes)
    return Key.of(
        where if i == place else np.arange(n).reshape([n if j == i else 1 for j in range(ndim)])
        for i, n in enumerate(sizes)
    )


def places_of(op: str, x: TensorCore, dim: int, index: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
    """Return `x` with at least one dimension, and the key of its elements at `index` along `dim`."""
    line = at_least_1d(as_tensor(x))
    shape = line.shape
    place = dim_of(op, dim, len(shape))
    where = np.atleast_1d(indices_of(op, index, shape[place], place, least=0))
    fits = where.ndim == len(shape) and all(
        n <= size or i == place for i, (n, size) in enumerate(zip(where.shape, shape, strict=True))
    )
    if not fits:
        raise InvalidArgumentError(
            f"{op}: an index of shape {where.shape} does not fit a tensor of shape {shape}: it must have as "
            f"many dimensions, and no larger size, other than along dimension {place}"
        )
    return line, _key_along(where, where.shape, place)


def sources_for(op: str, src: object, where: tuple[Any, ...]) -> Any:
    """Return the part of `src` with the shape of the index."""
    if not isinstance(src, (TensorCore, np.ndarray)):
        return src
    sizes = np.broadcast_shapes(*[part.shape for part in where])
    x = at_least_1d(as_tensor(src))
    if len(x.shape) != len(sizes) or any(n < size for n, size in zip(x.shape, sizes, strict=True)):
        raise InvalidArgumentError(f"{op}: src of shape {x.shape} is smaller than the index of shape {sizes}")
    return x if x.shape == sizes else x[tuple([slice(n) for n in sizes])]


def add_at(op: str, x: Tensor, where: tuple[Any, ...], source: Tensor) -> None:
    sizes = np.broadcast_to(np.False_, x.shape)[where].shape
    if source.shape != sizes:
        raise InvalidArgumentError(
            f"{op}: the source has shape {source.shape}, but the index selects elements of shape {sizes}"
        )
    if not np.can_cast(source.dtype, x.dtype, "same_kind"):
        raise TypeError(f"{op}: can't add {source.dtype} to a tensor of {x.dtype}: convert one of them")
    overwrite(
        _ADD_AT, x, lambda array: np.add.at(array, where, array_for(op, source)), (x, source), key=where
    )
