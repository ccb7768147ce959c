"""Read and write elements by index tensors and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from tensor._dtypes import Array, is_floating, result_type
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of
from tensor.core.donation import composite, own
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.context import run_kernel
from tensor.ops.data import as_data, as_tensor
from tensor.ops.dispatch import apply, overwrite
from tensor.ops.elementwise import where as choose
from tensor.ops.expanding import broadcast_arrays
from tensor.ops.indexing import Key, numpy_key
from tensor.ops.scaling import scaled
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
    return _taken(x, _indices("take", indices, shape[place], place), place)


def _taken(x: Tensor, where: Array, place: int) -> Tensor:
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
    where = _indices("take_along_axis", indices, shape[place], place)
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


class Selecting(TensorCore):
    """Methods that read and write by index tensors and masks."""

    __slots__ = ()

    def take(self, index: Tensor) -> Tensor:
        """Return the elements at `index` of the flattened tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).take(tensor.tensor([3, 0])).tolist()
        [4, 1]
        """
        return take(as_tensor(self).ravel(), index)

    @composite
    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Return a copy of the slices along `dim` at `index`, which has shape ``(n,)`` or is an integer.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).index_select(0, tensor.tensor([1, 1])).tolist()
        [[3, 4], [3, 4]]
        """
        x = as_tensor(self)
        if x.ndim == 0 and index.numel() != 1:
            raise InvalidArgumentError(
                f"index_select takes one index for a tensor without dimensions, not {index.numel()}"
            )
        line = at_least_1d(x)
        place = dim_of("index_select", dim, line.ndim)
        where = np.atleast_1d(_indices("index_select", index, line.shape[place], place, least=0))
        if where.ndim > 1:
            raise InvalidArgumentError(
                f"index_select takes an index of one dimension, not shape {where.shape}"
            )
        found = _taken(line, where, place)
        return found.reshape(()) if x.ndim == 0 else found

    def take_along_dim(self, indices: Tensor, dim: int | None = None) -> Tensor:
        """Return the elements at `indices` along `dim`, or of the flattened tensor without `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[3, 1], [2, 4]]).take_along_dim(tensor.tensor([[0], [1]]), dim=1).tolist()
        [[3], [4]]
        """
        if dim is None:
            return take(as_tensor(self).reshape(-1), indices.reshape(-1))
        return take_along_axis(as_tensor(self), indices, axis=dim)

    def gather(self, dim: int, index: Tensor) -> Tensor:
        """Return the elements at `index` along `dim`, in the shape of `index`.

        Parameters
        ----------
        index
            As many dimensions as the tensor. Its sizes are at most the tensor's, except along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[3, 1], [2, 4]]).gather(1, tensor.tensor([[0], [1]])).tolist()
        [[3], [4]]
        """
        if as_tensor(index).numel() == 0:
            return at_least_1d(as_tensor(self)).reshape(-1)[:0].reshape(index.shape)
        x, where = places_of("gather", self, dim, index)
        return x[where].reshape(index.shape) if index.ndim == 0 else x[where]

    def masked_select(self, mask: Tensor) -> Tensor:
        """Return the elements where the broadcast `mask` is True, in one dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2, 3]).masked_select(tensor.tensor([True, False, True])).tolist()
        [1, 3]
        """
        x, where = broadcast_arrays(as_tensor(self), as_tensor(mask_of("masked_select", mask)))
        return x[where]

    def masked_fill_(self, mask: Tensor, value: complex | Tensor) -> Self:
        """Write `value` where `mask`, broadcast to the tensor's shape, is True.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).masked_fill_(tensor.tensor([True, False, True]), 5).tolist()
        [5.0, 0.0, 5.0]
        """
        if isinstance(value, TensorCore) and as_tensor(value).ndim:
            raise InvalidArgumentError(
                f"masked_fill takes one value, not a tensor of shape {as_tensor(value).shape}: write "
                "x.where(~mask, values)"
            )
        shape, where = as_tensor(self).shape, mask_of("masked_fill", mask)
        try:
            where = np.broadcast_to(where, shape)
        except ValueError:
            raise InvalidArgumentError(
                f"masked_fill: a mask of shape {where.shape} does not broadcast to shape {shape}"
            ) from None
        as_tensor(self)[where] = value
        return self

    def masked_fill(self, mask: Tensor, value: complex | Tensor) -> Tensor:
        """Return a copy with `value` where the broadcast `mask` is True.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).masked_fill(tensor.tensor([True, False, True]), 5).tolist()
        [5.0, 0.0, 5.0]
        """
        x = as_tensor(self)
        if type(value) in (int, float) and is_floating(x.dtype) and _is_mask_of(mask, x):
            return choose(mask, value, x)
        flags = mask_of("masked_fill", mask)
        try:
            shape = np.broadcast_shapes(x.shape, flags.shape)
        except ValueError:
            raise InvalidArgumentError(
                f"masked_fill: a mask of shape {flags.shape} does not broadcast to shape {x.shape}"
            ) from None
        if shape != x.shape:
            x = x.broadcast_to(shape)
        return own(x, mask, value).masked_fill_(mask, value)

    def scatter_(
        self,
        dim: int,
        index: Tensor,
        src: complex | Tensor | None = None,
        *,
        value: complex | None = None,
        reduce: str | None = None,
    ) -> Self:
        """Write the elements of `src` to the positions `index` along `dim`.

        Parameters
        ----------
        index
            As many dimensions as the tensor. Its sizes are at most the tensor's, except along `dim`.
        src
            A tensor at least as large as `index`, or a number, which can also be passed as `value`. If an
            index occurs several times, the order of the writes is not defined.
        reduce
            ``"add"`` or ``"multiply"``: combine with the current elements instead of replacing them.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).scatter_(1, tensor.tensor([[2], [0]]), 1.0).tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        """
        given = value if src is None else src
        if given is None:
            raise TypeError("scatter needs the values to write: x.scatter(dim, index, src)")
        if isinstance(given, TensorCore) and given.dtype != as_tensor(self).dtype:
            raise TypeError(
                f"scatter: src is {given.dtype}, but the tensor is {as_tensor(self).dtype}: write "
                "src.to(x.dtype)"
            )
        if as_tensor(index).numel() == 0:
            return self
        x, where = places_of("scatter", self, dim, index)
        source = sources_for("scatter", given, where)
        if reduce is None:
            x[where] = source
            return self
        if reduce not in ("add", "multiply"):
            raise InvalidArgumentError(f"scatter: reduce must be 'add' or 'multiply', not {shown(reduce)}")
        if not isinstance(source, TensorCore):
            source = x.new_full(index.shape, source)
        x.copy_(x.scatter_reduce(dim, index, source, "sum" if reduce == "add" else "prod"))
        return self

    def scatter(
        self,
        dim: int,
        index: Tensor,
        src: complex | Tensor | None = None,
        *,
        value: complex | None = None,
        reduce: str | None = None,
    ) -> Tensor:
        """Return a copy with the elements of `src` at the positions `index` along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1, 3)).scatter(1, tensor.tensor([[2]]), 7.0).tolist()
        [[0.0, 0.0, 7.0]]
        """
        return own(as_tensor(self), index, src).scatter_(dim, index, src, value=value, reduce=reduce)

    def scatter_add_(self, dim: int, index: Tensor, src: Tensor) -> Self:
        """Add the elements of `src` at the positions `index` along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).scatter_add_(0, tensor.tensor([2, 2]), tensor.ones((2,))).tolist()
        [0.0, 0.0, 2.0]
        """
        if as_tensor(src).dtype != as_tensor(self).dtype:
            raise TypeError(
                f"scatter_add: src is {src.dtype}, but the tensor is {as_tensor(self).dtype}: write "
                "src.to(x.dtype)"
            )
        if as_tensor(index).numel() == 0:
            return self
        x, where = places_of("scatter_add", self, dim, index)
        add_at("scatter_add", x, where, as_tensor(sources_for("scatter_add", src, where)))
        return self

    def scatter_add(self, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """Return a copy with the elements of `src` added at the positions `index` along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3,)).scatter_add(0, tensor.tensor([2, 2]), tensor.ones((2,))).tolist()
        [1.0, 1.0, 3.0]
        """
        return own(as_tensor(self), index, src).scatter_add_(dim, index, src)

    def index_add_(self, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Self:
        """Add `alpha` times the slices of `source` to the slices along `dim` at `index`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).index_add_(0, tensor.tensor([2, 2]), tensor.ones((2,))).tolist()
        [0.0, 0.0, 2.0]
        """
        x, where = parts_along("index_add", self, dim, index)
        parts = at_least_1d(as_tensor(source))
        if alpha != 1:
            parts = as_tensor(scaled(parts, alpha, result_type(x, parts)))
        add_at("index_add", x, where, parts)
        return self

    def index_add(self, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
        """Return a copy with the slices of `source` added to the slices along `dim` at `index`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3,)).index_add(0, tensor.tensor([2]), tensor.ones((1,)), alpha=2).tolist()
        [1.0, 1.0, 3.0]
        """
        return own(as_tensor(self), index, source).index_add_(dim, index, source, alpha=alpha)

    def index_fill_(self, dim: int, index: Tensor, value: complex | Tensor) -> Self:
        """Write `value` to the slices along `dim` at `index`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).index_fill_(0, tensor.tensor([2]), 5.0).tolist()
        [0.0, 0.0, 5.0]
        """
        x, where = parts_along("index_fill", self, dim, index)
        if isinstance(value, TensorCore) and as_tensor(value).ndim:
            raise InvalidArgumentError(
                f"index_fill takes one value, not a tensor of shape {as_tensor(value).shape}"
            )
        # Write each slice once, even if its index occurs twice, so that `value` gets its gradient once.
        x[Key.of((*where[:-1], np.unique(where[-1])))] = value
        return self

    def index_fill(self, dim: int, index: Tensor, value: complex | Tensor) -> Tensor:
        """Return a copy with `value` in the slices along `dim` at `index`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).index_fill(0, tensor.tensor([2]), 5.0).tolist()
        [0.0, 0.0, 5.0]
        """
        return own(as_tensor(self), index, value).index_fill_(dim, index, value)

    def index_copy_(self, dim: int, index: Tensor, source: Tensor) -> Self:
        """Write the slices of `source` to the slices along `dim` at `index`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).index_copy_(0, tensor.tensor([2, 0]), tensor.ones((2,))).tolist()
        [1.0, 0.0, 1.0]
        """
        x, where = parts_along("index_copy", self, dim, index)
        x[where] = source
        return self

    def index_copy(self, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """Return a copy with the slices of `source` in the slices along `dim` at `index`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).index_copy(0, tensor.tensor([2]), tensor.ones((1,))).tolist()
        [0.0, 0.0, 1.0]
        """
        return own(as_tensor(self), index, source).index_copy_(dim, index, source)

    def index_put_(self, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Self:
        """Write `values` to ``x[indices]``, or add them with `accumulate`.

        Examples
        --------
        >>> import tensor
        >>> at = (tensor.tensor([2, 2]),)
        >>> tensor.zeros((3,)).index_put_(at, tensor.ones((2,)), accumulate=True).tolist()
        [0.0, 0.0, 2.0]
        """
        x = as_tensor(self)
        if accumulate:
            where = numpy_key(tuple(indices), x)[0]
            source = as_tensor(values).broadcast_to(x[tuple(indices)].shape)
            add_at("index_put", x, where, source)
        else:
            x[tuple(indices)] = values
        return self

    def index_put(self, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
        """Return a copy with `values` written or added to ``x[indices]``.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).index_put((tensor.tensor([2]),), tensor.ones((1,))).tolist()
        [0.0, 0.0, 1.0]
        """
        return as_tensor(self).clone().index_put_(indices, values, accumulate)

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero(self, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Return the indices of nonzero elements, one row for each.

        With `as_tuple`, return one tensor for each dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0, 5, 6]).nonzero().tolist()
        [[1], [2]]
        """
        return nonzero(at_least_1d(as_tensor(self))) if as_tuple else argwhere(as_tensor(self))

    argwhere = argwhere


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


def _is_mask_of(mask: object, x: Tensor) -> bool:
    """Return whether `mask` broadcasts to the shape of `x`. Raise TypeError unless it has bools."""
    shape = mask_of("masked_fill", mask).shape
    trailing = x.shape[len(x.shape) - len(shape) :]
    return len(shape) <= len(x.shape) and all(n in (1, m) for n, m in zip(shape, trailing, strict=True))


def _indices(op: str, index: object, size: int, place: int, *, least: int | None = None) -> Array:
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
    where = np.atleast_1d(_indices(op, index, line.shape[place], place, least=_MIN_INDEX.get(op, 0)))
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
    where = np.atleast_1d(_indices(op, index, shape[place], place, least=0))
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
