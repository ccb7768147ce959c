"""Methods that change the shape, and that join and split.

The functions are in ``shapes.py``, ``expanding.py``, ``moving.py`` and ``joining.py`` of `tensor.ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, dims_of, exchange, infer_sizes, named_sizes, sizes_of
from tensor.core.tensor import TensorCore, composite, wrap
from tensor.memory.buffer import zeros
from tensor.ops.data import as_data, as_tensor
from tensor.ops.dispatch import over, reshaped, view
from tensor.ops.expanding import broadcast_to, repeat, tile, view_of_shape
from tensor.ops.in_place import become_view
from tensor.ops.joining import parts_of, unstack
from tensor.ops.moving import flip, roll, tril, triu
from tensor.ops.shapes import PERMUTE_DIMS, in_order, matrix_transpose, moveaxis, reshape
from tensor.ops.writing import become
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops.messages import Operand

_EXPAND_DIMS = RULES["expand_dims"]
_SQUEEZE = RULES["squeeze"]
# For each number of dimensions up to NumPy's limit of 64: the index that appends a dimension of size 1, and
# the dimensions in reverse order.
_UNSQUEEZE_INDICES = [(*[slice(None)] * n, None) for n in range(65)]
_REVERSED = [(tuple(range(n))[::-1],) for n in range(65)]


class Shapes(TensorCore):
    """Methods that change the shape, and that join and split."""

    __slots__ = ()

    # --- Shapes and the order of dimensions -----------------------------------------------------------------

    def reshape(self, *sizes: int | Sequence[int], shape: int | Sequence[int] | None = None) -> Tensor:
        """Return the elements in another shape; a view if the memory layout allows it.

        Examples
        --------
        >>> import tensor
        >>> tensor.arange(6).reshape(2, -1).shape
        (2, 3)
        """
        return reshaped(self, sizes if shape is None else named_sizes("reshape", sizes, shape), None)

    def view(self, *sizes: int | Sequence[int], size: int | Sequence[int] | None = None) -> Tensor:
        """Return a view in another shape. Raise a ValueError if that would need a copy.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).view(-1).shape
        (6,)
        """
        return reshaped(self, sizes if size is None else named_sizes("view", sizes, size), False)

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

    def permute(self, *order: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
        """Return a view with the dimensions in this order, which may be given as `dims`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return in_order(
            self, sizes_of("permute", order if dims is None else named_sizes("permute", order, dims))
        )

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
            return self.T if dim0 is None else in_order(self, sizes_of("transpose", (dim0,)))
        if dim0 is None or isinstance(dim0, (tuple, list)):
            raise TypeError("transpose takes two dimensions, or one tuple of all of them in their new order")
        array = self._array
        if array is None:
            self._raise_disposed()
        ndim = array.ndim
        first, second = dim_of("transpose", dim0, ndim or 1), dim_of("transpose", dim1, ndim or 1)
        order = exchange(ndim, first, second) if ndim else ()
        return over(self, array, array.transpose(order), PERMUTE_DIMS, (order,))

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """Return a view with two dimensions exchanged.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3, 4)).swapaxes(axis0=0, axis1=2).shape
        (4, 3, 2)
        """
        return self.transpose(axis0, axis1)

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
        return over(self, array, array.T, PERMUTE_DIMS, _REVERSED[array.ndim])

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

    def contiguous(self, memory_format: object = None) -> Tensor:
        """Return the tensor itself if it is contiguous, else a contiguous copy.

        A contiguous view that covers less than half of its memory is copied too. `memory_format` has no
        effect.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).T.contiguous().stride()
        (2, 1)
        """
        del memory_format  # all tensors are in row-major order
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

    def squeeze_(self, dim: int | tuple[int, ...] | None = None) -> Self:
        """Give the tensor the shape of the result of ``squeeze``, without moving elements.

        Views of the tensor keep their shape, and share its memory as before.

        Raises
        ------
        RuntimeError
            If the tensor is a leaf that requires grad.
        """
        return become_view("squeeze", self, lambda x: x.squeeze(dim))

    def unsqueeze_(self, dim: int) -> Self:
        """Give the tensor the shape of the result of ``unsqueeze``, without moving elements.

        Views of the tensor keep their shape, and share its memory as before.

        Raises
        ------
        RuntimeError
            If the tensor is a leaf that requires grad.
        """
        return become_view("unsqueeze", self, lambda x: x.unsqueeze(dim))

    def transpose_(self, dim0: int | tuple[int, ...] | None = None, dim1: int | None = None) -> Self:
        """Give the tensor the shape of the result of ``transpose``, without moving elements.

        Views of the tensor keep their shape, and share its memory as before.

        Raises
        ------
        RuntimeError
            If the tensor is a leaf that requires grad.
        """
        return become_view("transpose", self, lambda x: x.transpose(dim0, dim1))

    def t_(self) -> Self:
        """Give the tensor the shape of the result of ``t``, without moving elements.

        Views of the tensor keep their shape, and share its memory as before.

        Raises
        ------
        RuntimeError
            If the tensor is a leaf that requires grad.
        """
        return become_view("t", self, lambda x: x.t())

    def swapaxes_(self, axis0: int, axis1: int) -> Self:
        """Exchange two dimensions, without moving elements; see ``transpose_``.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).swapaxes_(0, 1).shape
        (3, 2)
        """
        return self.transpose_(axis0, axis1)

    swapdims_ = transpose_

    # --- Expanding and repeating ----------------------------------------------------------------------------

    def expand(self, *sizes: int | Sequence[int], size: int | Sequence[int] | None = None) -> Tensor:
        """Return a view with larger sizes: it repeats dimensions of size 1, and adds dimensions.

        -1 keeps a size.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1], [2]]).expand(-1, 2).tolist()
        [[1, 1], [2, 2]]
        """
        return view_of_shape(
            self, sizes_of("expand", sizes if size is None else named_sizes("expand", sizes, size))
        )

    def expand_as(self, other: Tensor) -> Tensor:
        """Return a view in the shape of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1]).expand_as(tensor.zeros((3,))).tolist()
        [1, 1, 1]
        """
        return broadcast_to(as_tensor(self), other.shape)

    def broadcast_to(self, size: tuple[int, ...]) -> Tensor:
        """Return a view in the shape `size`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1]).broadcast_to((3,)).tolist()
        [1, 1, 1]
        """
        return broadcast_to(as_tensor(self), size)

    def tile(self, *repetitions: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
        """Return the tensor tiled along each dimension. The numbers may be given as `dims`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).tile(2).tolist()
        [1, 2, 1, 2]
        """
        return tile(as_tensor(self), sizes_of("tile", named_sizes("tile", repetitions, dims)))

    def repeat(self, *repetitions: int | Sequence[int], repeats: int | Sequence[int] | None = None) -> Tensor:
        """Return the tensor tiled along each dimension. Give at least one integer for each dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        x, times = as_tensor(self), sizes_of("repeat", named_sizes("repeat", repetitions, repeats))
        if len(times) < len(x.shape):
            raise InvalidArgumentError(
                f"repeat: {times} has fewer numbers than shape {x.shape} has dimensions: give one for each, "
                "or write x.tile(...)"
            )
        return tile(x, times)

    def repeat_interleave(
        self, repeats: int | Tensor, dim: int | None = None, *, output_size: int | None = None
    ) -> Tensor:
        """Return the tensor with each element, or each slice along `dim`, repeated.

        `output_size`, if given, must be the size of the result along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).repeat_interleave(2).tolist()
        [1, 1, 2, 2]
        """
        found = repeat(as_tensor(self), repeats, axis=dim)
        size = found.shape[0 if dim is None else dim]
        if output_size not in (None, size):
            raise InvalidArgumentError(
                f"repeat_interleave: the result has {size} slices, but output_size is {output_size}"
            )
        return found

    # --- Moving elements ------------------------------------------------------------------------------------

    def flip(self, dims: int | Sequence[int], *more: int) -> Tensor:
        """Return a copy with the elements in reverse order along `dims`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2, 3]).flip(0).tolist()
        [3, 2, 1]
        """
        return flip(as_tensor(self), axis=sizes_of("flip", (dims, *more)))

    def roll(self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None) -> Tensor:
        """Return a copy with elements shifted by `shifts` along `dims`; the last ones move to the start.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).roll(1, 0).tolist()
        [[3, 4], [1, 2]]
        """
        return roll(as_tensor(self), shifts, axis=dims)

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """Return the tensor rotated `k` times by 90 degrees, from the first of `dims` to the second.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).rot90().tolist()
        [[2, 4], [1, 3]]
        """
        x = as_tensor(self)
        places = dims_of("rot90", tuple(dims), len(x.shape))
        if len(places) != 2:
            raise InvalidArgumentError(f"rot90 takes the 2 dimensions of a plane, not {len(places)}")
        first, second = places
        turns = k % 4
        if turns == 0:
            return x.clone()
        if turns == 2:
            return flip(x, axis=(first, second))
        return (
            flip(x, axis=second).transpose(first, second)
            if turns == 1
            else flip(x.transpose(first, second), axis=second)
        )

    def tril(self, diagonal: int = 0) -> Tensor:
        """Return a copy with 0 above `diagonal`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 2)).tril().tolist()
        [[1.0, 0.0], [1.0, 1.0]]
        """
        return tril(as_tensor(self), k=diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        """Return a copy with 0 below `diagonal`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 2)).triu(1).tolist()
        [[0.0, 1.0], [0.0, 0.0]]
        """
        return triu(as_tensor(self), k=diagonal)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Return a view of the diagonal of two dimensions, as a new last dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).diagonal().tolist()
        [1, 4]
        """
        x = as_tensor(self)
        first, second = dims_of("diagonal", (dim1, dim2), len(x.shape))

        def make(array: Array) -> Array:
            out: Array = array.diagonal(offset, first, second)
            # NumPy returns a read-only view for backward compatibility.
            out.flags.writeable = array.flags.writeable
            return out

        return view(RULES["diagonal"], make, x, shape=x.shape, offset=offset, dims=(first, second))

    @property
    def real(self) -> Tensor:
        """A view of the real parts, or the tensor itself if it is real.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1 + 2j]).real.tolist()
        [1.0]
        """
        x = as_tensor(self)
        return view(RULES["real"], lambda a: a.real, x) if x.is_complex() else x

    @real.setter
    def real(self, value: Operand) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Tensor:
        """A view of the imaginary parts, or new zeros if the tensor is real, as in NumPy.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1 + 2j]).imag.tolist()
        [2.0]
        """
        x = as_tensor(self)
        if not x.is_complex():
            return wrap(zeros(x.shape, x.dtype))
        return view(RULES["imag"], lambda a: a.imag, x)

    @imag.setter
    def imag(self, value: Operand) -> None:
        x = as_tensor(self)
        if not x.is_complex():
            raise InvalidArgumentError(f"imag: a tensor of {x.dtype} has no imaginary part to write to")
        self.imag[...] = value

    @composite
    def tril_(self, diagonal: int = 0) -> Self:
        """Write the result of ``tril`` to the tensor, which keeps its shape and dtype."""
        become("tril", as_tensor(self), as_tensor(self).tril(diagonal))
        return self

    @composite
    def triu_(self, diagonal: int = 0) -> Self:
        """Write the result of ``triu`` to the tensor, which keeps its shape and dtype."""
        become("triu", as_tensor(self), as_tensor(self).triu(diagonal))
        return self

    # --- Splitting ------------------------------------------------------------------------------------------

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of the slices along `dim`, without that dimension.

        Examples
        --------
        >>> import tensor
        >>> [part.tolist() for part in tensor.tensor([[1, 2], [3, 4]]).unbind()]
        [[1, 2], [3, 4]]
        """
        return unstack(as_tensor(self), axis=dim)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of parts of `split_size` along `dim`. The last one may be smaller.

        Parameters
        ----------
        split_size
            One size for all parts, or the size of each.

        Examples
        --------
        >>> import tensor
        >>> [part.tolist() for part in tensor.tensor([1, 2, 3, 4, 5]).split(2)]
        [[1, 2], [3, 4], [5]]
        """
        x = as_tensor(self)
        place = dim_of("split", dim, len(x.shape))
        size = x.shape[place]
        if isinstance(split_size, int):
            if split_size < 1:
                raise InvalidArgumentError(f"split: the size of parts must be at least 1, not {split_size}")
            return _split(x, place, split_size)
        sizes = list(split_size)
        if sum(sizes) != size or any(n < 0 for n in sizes):
            raise InvalidArgumentError(
                f"split: the sizes {sizes} must add up to {size}, the size of dimension {dim} of shape "
                f"{x.shape}"
            )
        ends = list(accumulate(sizes, initial=0))
        return parts_of(x, place, map(slice, ends, ends[1:]))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of at most `chunks` parts of equal size along `dim`. The last one may be smaller.

        An empty dimension gives `chunks` empty parts.

        Examples
        --------
        >>> import tensor
        >>> [part.tolist() for part in tensor.tensor([1, 2, 3, 4, 5]).chunk(2)]
        [[1, 2, 3], [4, 5]]
        """
        if chunks < 1:
            raise InvalidArgumentError(f"chunk: chunks must be at least 1, not {chunks}")
        x = as_tensor(self)
        place = dim_of("chunk", dim, len(x.shape))
        size = x.shape[place]
        if size == 0:
            return parts_of(x, place, [slice(0, 0)] * chunks)
        return _split(x, place, -(-size // chunks))

    # --- Splitting with NumPy's names, and windows ----------------------------------------------------------

    def tensor_split(
        self,
        indices_or_sections: int | Sequence[int] | Tensor | None = None,
        dim: int = 0,
        *,
        indices: Sequence[int] | None = None,
        sections: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return views of parts along `dim`: a number of nearly equal parts, or the parts between indices.

        The number may be given as `sections`, the indices as `indices`.

        Examples
        --------
        >>> import tensor
        >>> [x.tolist() for x in tensor.tensor([1, 2, 3]).tensor_split(2)]
        [[1, 2], [3]]
        >>> [x.tolist() for x in tensor.tensor([1, 2, 3]).tensor_split((1,))]
        [[1], [2, 3]]
        """
        x = as_tensor(self)
        place = dim_of("tensor_split", dim, x.ndim)
        given = _parts("tensor_split", self, indices_or_sections, indices, sections)
        if isinstance(given, TensorCore):
            if as_tensor(given).dtype != np.int64 or as_tensor(given).ndim > 1:
                raise InvalidArgumentError(
                    "tensor_split takes a number of parts, or a vector of int64 indices"
                )
            given = as_data(given, None).tolist()
        size = x.shape[place]
        if isinstance(given, int):
            if given < 1:
                raise InvalidArgumentError(
                    f"tensor_split: the number of parts must be at least 1, not {given}"
                )
            least, more = divmod(size, given)
            ends = np.cumsum([least + (i < more) for i in range(given - 1)]).tolist()
        else:
            ends = [int(i) for i in given]
        before = (slice(None),) * place
        starts = [None, *ends]
        return tuple(x[(*before, slice(a, b))] for a, b in zip(starts, [*ends, None], strict=True))

    def hsplit(
        self,
        indices_or_sections: int | Sequence[int] | None = None,
        *,
        indices: Sequence[int] | None = None,
        sections: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return views of parts along the second dimension, or along the only dimension of a vector.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((2, 4)).hsplit(2)]
        [(2, 2), (2, 2)]
        """
        given: Any = _parts("hsplit", self, indices_or_sections, indices, sections)
        return _equal_parts("hsplit", as_tensor(self), given, 1, 1)

    def vsplit(
        self,
        indices_or_sections: int | Sequence[int] | None = None,
        *,
        indices: Sequence[int] | None = None,
        sections: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return views of parts along the first dimension.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((4, 2)).vsplit(2)]
        [(2, 2), (2, 2)]
        """
        given: Any = _parts("vsplit", self, indices_or_sections, indices, sections)
        return _equal_parts("vsplit", as_tensor(self), given, 0, 2)

    def dsplit(
        self,
        indices_or_sections: int | Sequence[int] | None = None,
        *,
        indices: Sequence[int] | None = None,
        sections: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return views of parts along the third dimension.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((2, 2, 4)).dsplit(2)]
        [(2, 2, 2), (2, 2, 2)]
        """
        given: Any = _parts("dsplit", self, indices_or_sections, indices, sections)
        return _equal_parts("dsplit", as_tensor(self), given, 2, 3)

    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of parts of these sizes along `dim`.

        Examples
        --------
        >>> import tensor
        >>> [x.tolist() for x in tensor.tensor([1, 2, 3]).split_with_sizes([1, 2])]
        [[1], [2, 3]]
        """
        return as_tensor(self).split(list(split_sizes), dim)

    @composite
    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """Return a copy of all windows of `size` elements along `dimension`, `step` elements apart.

        `dimension` counts the windows, and a new last dimension has their elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
        [[1, 2], [2, 3], [3, 4]]
        """
        x = as_tensor(self)
        line = x.reshape(1) if x.ndim == 0 else x
        place = dim_of("unfold", dimension, line.ndim)
        if not 0 <= size <= line.shape[place]:
            raise InvalidArgumentError(
                f"unfold: a window of {size} does not fit dimension {dimension} of size {line.shape[place]}"
            )
        if step < 1:
            raise InvalidArgumentError(f"unfold: step must be at least 1, not {step}")
        if x.ndim == 0:
            return line[:size]
        starts = np.arange(0, line.shape[place] - size + 1, step)
        windows = line[(*[slice(None)] * place, starts[:, None] + np.arange(size))]
        return windows.movedim(place + 1, -1)

    # --- Strides --------------------------------------------------------------------------------------------

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


def _split(x: Tensor, place: int, size: int) -> tuple[Tensor, ...]:
    """Return parts of `size`, at least one. The last one may be smaller."""
    count = x.shape[place]
    return parts_of(x, place, [slice(i, i + size) for i in range(0, count, size)] or [slice(0)])


def _parts(name: str, x: TensorCore, given: Any, indices: Sequence[int] | None, sections: int | None) -> Any:
    """Return the one of the last three arguments that is not None."""
    found = [each for each in (given, indices, sections) if each is not None]
    if len(found) != 1:
        x._raise_if_disposed()
        raise TypeError(f"{name} takes either sections or indices: write x.{name}(sections=2)")
    return found[0]


def _equal_parts(
    name: str, x: Tensor, parts: int | Sequence[int], dim: int, min_dims: int
) -> tuple[Tensor, ...]:
    if x.ndim < min_dims:
        raise InvalidArgumentError(
            f"{name} takes a tensor of at least {min_dims} dimensions, not shape {x.shape}"
        )
    place = 0 if x.ndim == 1 else dim
    if isinstance(parts, int) and parts > 0 and x.shape[place] % parts:
        raise InvalidArgumentError(
            f"{name}: dimension {place} of shape {x.shape} can't be split into {parts} equal parts: write "
            f"x.tensor_split({parts}, dim={place}) for parts of different sizes"
        )
    return x.tensor_split(parts, place)


def _start(x: Tensor) -> int:
    """Return the number of elements in the memory of `x` before its first element."""
    buffer = x._buffer
    if buffer is None:
        return 0
    address: int = buffer.root.__array_interface__["data"][0]
    return (x.data_ptr() - address) // x.dtype.itemsize
