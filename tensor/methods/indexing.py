"""Indexing, and methods that read and write at indices.

The functions are in ``indexing.py``, ``selecting.py`` and ``writing.py`` of `tensor.ops`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from tensor._dtypes import Array, is_floating, is_inexact, result_type
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of
from tensor.core.tensor import TensorCore, composite, own, wrap
from tensor.kernels.running import run_kernel
from tensor.ops import elementwise
from tensor.ops.data import as_data, as_tensor
from tensor.ops.dispatch import apply, operand, over, overwrite, write_plainly
from tensor.ops.elementwise import where as choose
from tensor.ops.expanding import broadcast_arrays, broadcast_to
from tensor.ops.indexing import Key, numpy_key
from tensor.ops.messages import Operand, explain, foreign
from tensor.ops.operators import Operators
from tensor.ops.scaling import scaled
from tensor.ops.selecting import (
    add_at,
    argwhere,
    array_for,
    at_least_1d,
    indices_of,
    mask_of,
    nonzero,
    parts_along,
    places_of,
    sources_for,
    take,
    take_along_axis,
    taken,
)
from tensor.ops.writing import become
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_GETITEM = RULES["getitem"]
_SETITEM = RULES["setitem"]
# The reductions by PyTorch's names. Some have two names.
_REDUCTIONS = {"sum": "sum", "add": "sum", "mean": "mean", "prod": "prod", "multiply": "prod"}
_REDUCTIONS |= {"amax": "amax", "amin": "amin"}


class Indexing(Operators):
    """Indexing, and methods that read and write at indices."""

    __slots__ = ()

    # --- Indexing -------------------------------------------------------------------------------------------

    def _index(self, key: object) -> Tensor:
        """Return ``x[key]`` for the keys that `Operators.__getitem__` does not handle."""
        where, selects = numpy_key(key, self, copying=self._node is not None)
        if selects:
            steps = _in_two_steps(where)
            if steps is not None:
                basic, advanced = steps
                return self[basic][advanced]
            return apply(_GETITEM, lambda array: _selected(array, where), (self,), key=where)
        array = self._array
        if array is None:
            self._raise_disposed()
        try:
            out = array[where]
        except IndexError as error:
            raise _with_advice(error, array.shape) from None
        return over(self, array, out, _GETITEM, (where,))

    def __setitem__(self, key: object, value: object) -> None:
        """Write `value`, broadcast, to the elements at `key`. `value` gets a gradient.

        Raises
        ------
        IndexError
            If an index is out of range, there are too many indices, or a mask does not fit.
        ValueError
            If `value` does not broadcast to the shape of the selection, or an integer tensor can't represent
            it. In this case nothing is written.
        TypeError
            If `value` is complex and the tensor is real, or `value` is not a number, array or tensor.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2, 2))
        >>> x[0] = tensor.tensor([1.0, 2.0])
        >>> x[:, 1] = 7
        >>> x.tolist()
        [[1.0, 7.0], [0.0, 7.0]]
        """
        self._raise_if_disposed()
        is_recorded = self._node is not None or getattr(value, "_node", None) is not None
        where, selects = numpy_key(key, self, copying=is_recorded)
        steps = _in_two_steps(where) if selects else None
        if steps is not None:
            basic, advanced = steps
            self[basic][advanced] = value
            return
        given = _checked_value(self, value)

        # A closure would keep `given` alive in the traceback of an error.
        write = partial(_write, where, given)
        shape = given._array.shape if isinstance(given, TensorCore) else given.shape  # type: ignore[union-attr]  # not disposed, see above
        overwrite(_SETITEM, self, write, (self, given), key=where, value_shape=shape)

    def __len__(self) -> int:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.ndim == 0:
            raise TypeError("a tensor without dimensions has no len(): write x.item() for its element")
        return int(array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.ndim == 0:
            raise TypeError(
                "a tensor without dimensions can't be iterated over: write x.item() for its element"
            )
        del array
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        """Return whether any element is equal to `value`."""
        self._raise_if_disposed()
        other: Any = operand(value)
        return other is not NotImplemented and bool(np.any(np.equal(operand(self), other)))

    def select(self, dim: int, index: int) -> Tensor:
        """Return a view of the slice at `index` along `dim`, without that dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).select(1, 0).tolist()
        [1, 3]
        """
        return self[(*[slice(None)] * dim_of("select", dim, self._dimensions()), index)]

    def narrow(self, dim: int, start: int | Tensor, length: int) -> Tensor:
        """Return a view of `length` slices along `dim`, from `start`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2, 3, 4]).narrow(0, 1, 2).tolist()
        [2, 3]
        """
        is_integer = hasattr(start, "__index__")
        if isinstance(start, TensorCore):
            array = start._live_array()
            is_integer = array.dtype.kind in "iu" and array.ndim == 0
        if not is_integer:
            raise TypeError("narrow: start must be an integer, or an integer tensor without dimensions")
        axis = dim_of("narrow", dim, self._dimensions())
        size = self._array.shape[axis]  # type: ignore[union-attr]  # _dimensions() has checked it
        begin = int(start)
        first = begin + size if begin < 0 else begin
        if length < 0 or not 0 <= first <= size - length:
            raise IndexError(f"narrow: {length} slices from {start} exceed dimension {dim} of size {size}")
        return self[(*[slice(None)] * axis, slice(first, first + length))]

    def _dimensions(self) -> int:
        array = self._array
        if array is None:
            self._raise_disposed()
        return array.ndim

    # --- Reading and writing at indices ---------------------------------------------------------------------

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
        where = np.atleast_1d(indices_of("index_select", index, line.shape[place], place, least=0))
        if where.ndim > 1:
            raise InvalidArgumentError(
                f"index_select takes an index of one dimension, not shape {where.shape}"
            )
        found = taken(line, where, place)
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

    # --- Writing all elements -------------------------------------------------------------------------------

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
            write_plainly(RULES["fill"], self, write)
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

    def copy_(self, src: Operand, non_blocking: bool = False) -> Self:
        """Write the values of `src`, which broadcasts and is cast to the tensor's dtype.

        `non_blocking` has no effect: there is no other device.

        Raises
        ------
        TypeError
            If `src` is complex and the tensor is not.
        ValueError
            If the shape of `src` does not broadcast to the tensor's.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).copy_(tensor.tensor([1, 2])).tolist()
        [1.0, 2.0]
        """
        del non_blocking
        given = operand(src)
        if given is NotImplemented:
            raise foreign("copy_", src)
        array = self._array
        if array is None:
            self._raise_disposed()
        _require_copy(array, np.asarray(given))
        del array, given

        def write(target: Array) -> None:
            np.copyto(target, operand(src), casting="unsafe")

        overwrite(RULES["copy"], as_tensor(self), write, (self, src))
        return self

    # --- Other writes ---------------------------------------------------------------------------------------

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

    @composite
    def scatter_reduce_(
        self, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
    ) -> Self:
        """Write the result of ``scatter_reduce`` to the tensor, which keeps its shape and dtype."""
        become(
            "scatter_reduce",
            as_tensor(self),
            as_tensor(self).scatter_reduce(dim, index, src, reduce, include_self=include_self),
        )
        return self

    @composite
    def index_reduce_(
        self, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
    ) -> Self:
        """Write the result of ``index_reduce`` to the tensor, which keeps its shape and dtype."""
        become(
            "index_reduce",
            as_tensor(self),
            as_tensor(self).index_reduce(dim, index, source, reduce, include_self=include_self),
        )
        return self

    @composite
    def put_(self, index: Tensor, source: Tensor, accumulate: bool = False) -> Self:
        """Write the result of ``put`` to the tensor, which keeps its shape and dtype."""
        become("put", as_tensor(self), as_tensor(self).put(index, source, accumulate))
        return self

    @composite
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Self:
        """Write the result of ``masked_scatter`` to the tensor, which keeps its shape and dtype."""
        become("masked_scatter", as_tensor(self), as_tensor(self).masked_scatter(mask, source))
        return self


def _write(where: Any, given: Any, array: Array) -> None:
    # Read the array now: the write first copies shared memory, which may replace the array of `given`.
    source: Any = given._array if isinstance(given, TensorCore) else given
    try:
        array[where] = source
    except IndexError as error:
        raise _with_advice(error, array.shape) from None
    except ValueError:
        raise InvalidArgumentError(
            f"a value of shape {np.shape(source)} does not broadcast to the shape "
            f"{np.shape(array[where])} of the selection in a tensor of shape {array.shape}: reshape "
            "the value, or select as many elements as it has. Nothing was written"
        ) from None


def _in_two_steps(where: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Return a key of views and a key of arrays that one after the other select what PyTorch selects.

    PyTorch applies the integers, slices and None of an index first, and then the arrays. For NumPy an integer
    beside an array is an array too, so a slice between them moves the dimension of the arrays to the front:
    ``x[0, :, [0, 1]]``. Return None if both agree on `where`, because nothing stands between them.
    """
    places = [i for i, part in enumerate(where) if isinstance(part, (int, np.ndarray))]
    if places[-1] - places[0] == len(places) - 1 or not any(isinstance(where[i], int) for i in places):
        return None
    basic: list[Any] = []
    advanced: list[Any] = []
    for part in where:
        if isinstance(part, np.ndarray):
            if part.ndim:
                basic += [slice(None)] * (part.ndim if part.dtype.kind == "b" else 1)
                advanced.append(part)
            else:
                basic.append(None)  # True and False select from a new dimension
                advanced.append(np.zeros(int(part), np.intp))
        else:
            basic.append(part)
            if not isinstance(part, int):
                advanced.append(part if part is Ellipsis else slice(None))
    return tuple(basic), tuple(advanced)


def _checked_value(x: TensorCore, value: object) -> TensorCore | Array:
    """Return `value` as a tensor or array to write to `x`. Raise an error if it does not fit."""
    array = x._array
    if array is None:
        x._raise_disposed()
    dtype, given = array.dtype, value
    if isinstance(value, TensorCore):
        value._raise_if_disposed()
        array = value._array
        if array is None:
            value._raise_disposed()
    elif isinstance(value, (bool, int, float)) or (isinstance(value, complex) and dtype.kind == "c"):
        try:
            return np.asarray(value, dtype)
        except (OverflowError, ValueError):
            if dtype.kind not in "iu":
                raise
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            raise InvalidArgumentError(
                f"can't write {value} into a tensor of {dtype}, which has integers from {least} to {most}"
            ) from None
    else:
        try:
            # A list of Python floats keeps its full precision in a float64 tensor.
            array = given = as_data(
                value, dtype if isinstance(value, (list, tuple)) and is_floating(dtype) else None
            )
        except TypeError as error:
            raise TypeError(f"can't write {type(value).__name__} into a tensor: {error}") from None
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(
            f"can't write complex values into a tensor of {dtype}: write value.real, or convert the tensor"
        )
    if is_floating(array.dtype) and dtype.kind in "iu" and not np.isfinite(array).all():
        raise InvalidArgumentError(
            f"can't write infinities or NaN into a tensor of {dtype}: convert the tensor first (x.float())"
        )
    return given  # type: ignore[return-value]  # a tensor, or the array of as_data


def _selected(array: Array, where: tuple[Any, ...]) -> Any:
    try:
        return array[where]
    except IndexError as error:
        raise _with_advice(error, array.shape) from None


def _with_advice(error: IndexError, shape: tuple[int, ...]) -> IndexError:
    text = re.sub(r"\baxis\b", "dimension", str(error)).replace("numpy.newaxis (`None`)", "None")
    if "out of bounds" in text:
        advice = "Indices must be from 0 to size - 1, or from -size to -1"
    elif "too many indices" in text:
        advice = f"Give at most {len(shape)}; None adds a dimension and does not count"
    elif "boolean index" in text:
        advice = "A mask must have the sizes of the dimensions that it indexes"
    elif "could not be broadcast" in text:
        advice = "Index tensors must broadcast against each other: equal sizes, or 1"
    else:
        advice = "See tensor.Tensor.__getitem__ for what an index may be"
    return IndexError(f"index into a tensor of shape {shape}: {text}. {advice}")


def _is_mask_of(mask: object, x: Tensor) -> bool:
    """Return whether `mask` broadcasts to the shape of `x`. Raise TypeError unless it has bools."""
    shape = mask_of("masked_fill", mask).shape
    trailing = x.shape[len(x.shape) - len(shape) :]
    return len(shape) <= len(x.shape) and all(n in (1, m) for n, m in zip(shape, trailing, strict=True))


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
        return (
            elementwise.divide(out, counted)
            if is_inexact(x.dtype)
            else elementwise.floor_divide(out, counted)
        )
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
        flat = elementwise.multiply(flat, factors)
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
    out = elementwise.where(own, elementwise.divide(x, shares), 0.0).clone()
    add_at(kind, out, where, elementwise.where(theirs, elementwise.divide(source, shares[where]), 0.0))
    return out


def _neutral(array: Array, kind: str) -> Any:
    if is_floating(array.dtype):
        return -np.inf if kind == "amax" else np.inf
    if array.dtype.kind == "b":
        return kind == "amin"
    limits = np.iinfo(array.dtype)
    return limits.min if kind == "amax" else limits.max
