"""Methods that combine elements with the same index, or return copies with one part replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array, is_floating, is_inexact
from tensor._errors import InvalidArgumentError, shown
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.context import run_kernel
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.expanding import broadcast_to
from tensor.ops.in_place import with_in_place
from tensor.ops.selecting import add_at, array_for, at_least_1d, mask_of, parts_along, places_of, sources_for

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# The reductions by PyTorch's names. Some have two names.
_REDUCTIONS = {"sum": "sum", "add": "sum", "mean": "mean", "prod": "prod", "multiply": "prod"}
_REDUCTIONS |= {"amax": "amax", "amin": "amin"}


@with_in_place("scatter_reduce index_reduce put masked_scatter")
class Scattering(TensorCore):
    """Methods that combine elements with the same index, or return copies with one part replaced."""

    __slots__ = ()

    @composite
    def scatter_reduce(
        self, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
    ) -> Tensor:
        """Return a copy in which elements of `src` with the same index along `dim` are combined.

        Parameters
        ----------
        reduce
            ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self
            Whether to combine them with the tensor's element at that index too.

        Examples
        --------
        >>> import tensor
        >>> x, at = tensor.ones((2,)), tensor.tensor([0, 0])
        >>> x.scatter_reduce(0, at, tensor.tensor([2.0, 3.0]), "prod").tolist()
        [6.0, 1.0]
        """
        if as_tensor(index).numel() == 0:
            return as_tensor(self).clone()
        x, where = places_of("scatter_reduce", self, dim, index)
        source = as_tensor(sources_for("scatter_reduce", src, where))
        out = reduced_at("scatter_reduce", x, where, source, reduce, include_self)
        return out.reshape(as_tensor(self).shape)

    @composite
    def index_reduce(
        self, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
    ) -> Tensor:
        """Return a copy in which slices of `source` with the same index along `dim` are combined.

        The other arguments are those of ``scatter_reduce``.

        Examples
        --------
        >>> import tensor
        >>> x, at = tensor.ones((2, 1)), tensor.tensor([0, 0])
        >>> x.index_reduce(0, at, tensor.tensor([[2.0], [3.0]]), "amax").tolist()
        [[3.0], [1.0]]
        """
        x, where = parts_along("index_reduce", self, dim, index)
        out = reduced_at("index_reduce", x, where, at_least_1d(as_tensor(source)), reduce, include_self)
        return out.reshape(as_tensor(self).shape)

    @composite
    def put(self, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
        """Return a copy with `source` at the indices `index` of the flattened tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).put(tensor.tensor([3]), tensor.ones((1,))).tolist()
        [[0.0, 0.0], [0.0, 1.0]]
        """
        x, where, values = as_tensor(self), as_tensor(index), as_tensor(source)
        if where.numel() != values.numel():
            raise InvalidArgumentError(
                f"put takes one value for each index, not {values.numel()} for {where.numel()} indices"
            )
        if values.dtype != x.dtype:
            raise TypeError(
                f"put: the source is {values.dtype}, but the tensor is {x.dtype}: convert one of them"
            )
        flat = x.reshape(-1).clone()
        return flat.index_put_((where.reshape(-1),), values.reshape(-1), accumulate).reshape(x.shape)

    @composite
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """Return a copy with successive elements of `source` where the broadcast `mask` is True.

        Examples
        --------
        >>> import tensor
        >>> mask = tensor.tensor([True, False, True])
        >>> tensor.zeros((3,)).masked_scatter(mask, tensor.tensor([1.0, 2.0])).tolist()
        [1.0, 0.0, 2.0]
        """
        x, values = as_tensor(self), as_tensor(source)
        if values.dtype != x.dtype:
            raise TypeError(
                f"masked_scatter: the source is {values.dtype}, but the tensor is {x.dtype}: convert one of "
                "them"
            )
        flags = mask_of("masked_scatter", mask)
        shape = np.broadcast_shapes(flags.shape, x.shape)
        flags = np.broadcast_to(flags, shape)
        count = int(np.count_nonzero(flags))
        if values.numel() < count:
            raise InvalidArgumentError(
                f"masked_scatter: the mask selects {count} elements, but the source has {values.numel()}"
            )
        out = broadcast_to(x, shape).clone()
        out[flags] = values.reshape(-1)[:count]
        return out

    @composite
    def diagonal_scatter(self, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Return a copy with `src` on the diagonal of two dimensions.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).diagonal_scatter(tensor.ones((2,))).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        out = as_tensor(self).clone()
        _replace("diagonal_scatter", out.diagonal(offset, dim1, dim2), src)
        return out

    @composite
    def select_scatter(self, src: Tensor, dim: int, index: int) -> Tensor:
        """Return a copy with `src` as slice `index` along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).select_scatter(tensor.ones((2,)), 0, 1).tolist()
        [[0.0, 0.0], [1.0, 1.0]]
        """
        out = as_tensor(self).clone()
        _replace("select_scatter", out.select(dim, index), src)
        return out

    @composite
    def slice_scatter(
        self, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Tensor:
        """Return a copy with `src` in the slice ``start:end:step`` along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).slice_scatter(tensor.ones((2,)), start=1).tolist()
        [0.0, 1.0, 1.0]
        """
        out = as_tensor(self).clone()
        place = dim + out.ndim if dim < 0 else dim
        _replace("slice_scatter", out[(*[slice(None)] * place, slice(start, end, step))], src)
        return out


def _replace(name: str, part: Tensor, src: Tensor) -> None:
    source = as_tensor(src)
    if source.shape != part.shape:
        raise InvalidArgumentError(
            f"{name}: src must have the shape of the part, {part.shape}, not {source.shape}"
        )
    part.copy_(source)


def reduced_at(
    name: str, x: Tensor, where: tuple[Any, ...], source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """Return a copy of `x` whose elements at the index `where` are combined with the elements of `source`."""
    kind = _REDUCTIONS.get(reduce)
    if kind is None:
        raise InvalidArgumentError(
            f"{name}: reduce must be 'sum', 'prod', 'mean', 'amax' or 'amin', not {shown(reduce)}"
        )
    if source.dtype != x.dtype:
        raise TypeError(
            f"{name}: the source is {source.dtype}, but the tensor is {x.dtype}: convert one of them"
        )
    sizes = np.broadcast_to(np.False_, x.shape)[where].shape
    if source.shape != sizes:
        raise InvalidArgumentError(
            f"{name}: the source has shape {source.shape}, but the index selects elements of shape {sizes}"
        )
    if kind in ("amax", "amin"):
        return _extremes(x, where, source, kind, include_self)
    out = x.clone()
    if not include_self:
        out[where] = 1 if kind == "prod" else 0
    if kind == "prod":
        return _products(out, where, source)
    add_at(name, out, where, source)
    if kind == "mean":
        counts = np.full(x.shape, int(include_self), np.int64)
        run_kernel(np.add.at, counts, where, 1)
        counted = wrap(np.maximum(counts, 1)).to(x.dtype)
        return f.divide(out, counted) if is_inexact(x.dtype) else f.floor_divide(out, counted)
    return out


def _products(out: Tensor, where: tuple[Any, ...], source: Tensor) -> Tensor:
    """Return `out` times the elements of `source` at their indices. Each step uses one element per index."""
    places = np.arange(out.numel()).reshape(out.shape)[where].reshape(-1)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]] if ordered.size else np.zeros(0, bool)
    rank = np.empty_like(places)
    first = np.maximum.accumulate(np.where(starts, np.arange(places.size), 0)) if places.size else places
    rank[order] = np.arange(places.size) - first
    flat, values = out.reshape(-1), source.reshape(-1)
    for i in range(int(rank.max()) + 1 if rank.size else 0):
        chosen = np.flatnonzero(rank == i)
        factors = flat.new_ones(flat.shape)
        factors[places[chosen]] = values[chosen]
        flat = f.multiply(flat, factors)
    return flat.reshape(out.shape)


def _extremes(x: Tensor, where: tuple[Any, ...], source: Tensor, kind: str, include_self: bool) -> Tensor:
    array, values = array_for(kind, x), array_for(kind, source)
    best = array.copy()
    if not include_self:
        best[where] = _neutral(array, kind)
    run_kernel((np.maximum if kind == "amax" else np.minimum).at, best, where, values)
    if x._node is None and source._node is None:
        return wrap(best)
    # Equal extreme elements share the gradient.
    touched = np.zeros(x.shape, bool)
    touched[where] = True
    own, theirs = (array == best) & (include_self | ~touched), values == best[where]
    counts = own.astype(array.dtype)
    run_kernel(np.add.at, counts, where, theirs.astype(array.dtype))
    shares = wrap(np.maximum(counts, 1))
    out = f.where(own, f.divide(x, shares), 0.0).clone()
    add_at(kind, out, where, f.where(theirs, f.divide(source, shares[where]), 0.0))
    return out


def _neutral(array: Array, kind: str) -> Any:
    if is_floating(array.dtype):
        return -np.inf if kind == "amax" else np.inf
    if array.dtype.kind == "b":
        return kind == "amin"
    limits = np.iinfo(array.dtype)
    return limits.min if kind == "amax" else limits.max
