"""Change the order of elements; read diagonals, triangles, and parts of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, dims_of, sizes_of
from tensor.core.tensor import TensorCore, wrap
from tensor.memory.buffer import zeros
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply, view
from tensor.ops.in_place import with_in_place
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops.messages import Operand


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return a copy of `x` with the elements in reverse order along `axis`, or along all for None.

    Examples
    --------
    >>> import tensor
    >>> tensor.flip(tensor.tensor([[1, 2], [3, 4]]), axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    x = as_tensor(x)
    ndim = len(x.shape)
    places = tuple(range(ndim)) if axis is None else dims_of("flip", axis, ndim or 1)[:ndim]
    return apply(RULES["flip"], lambda a: np.flip(a, places).copy(), (x,), axis=places)


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return a copy of `x` with elements shifted by `shift` along `axis`; the last ones move to the start.

    Parameters
    ----------
    axis
        None flattens `x` first.

    Examples
    --------
    >>> import tensor
    >>> tensor.roll(tensor.tensor([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    x = as_tensor(x)
    places = (
        None
        if axis is None
        else tuple(dim_of("roll", dim, len(x.shape)) for dim in ((axis,) if isinstance(axis, int) else axis))
    )
    shifts = sizes_of("roll", (shift,))
    if len(shifts) not in (1, len(places or (0,))):
        raise InvalidArgumentError(
            f"roll: {len(shifts)} shifts don't match {len(places or (0,))} dimensions: give one for each"
        )
    if places is not None:
        shifts = shifts * (len(places) // len(shifts))
    by: int | tuple[int, ...] = shifts[0] if places is None else shifts
    return apply(RULES["roll"], lambda a: np.roll(a, by, places), (x,), shift=by, axis=places)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return a copy of `x` with 0 above the diagonal `k` of its last two dimensions.

    Examples
    --------
    >>> import tensor
    >>> tensor.tril(tensor.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle("tril", x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return a copy of `x` with 0 below the diagonal `k` of its last two dimensions.

    Examples
    --------
    >>> import tensor
    >>> tensor.triu(tensor.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle("triu", x, k)


def real(x: Tensor, /) -> Tensor:
    """Return a view of the real parts of `x`, or `x` itself if it is real.

    Examples
    --------
    >>> import tensor
    >>> tensor.real(tensor.tensor([1 + 2j])).tolist()
    [1.0]
    """
    return as_tensor(x).real


def imag(x: Tensor, /) -> Tensor:
    """Return a view of the imaginary parts of `x`, or new zeros if it is real, as NumPy does.

    Examples
    --------
    >>> import tensor
    >>> tensor.imag(tensor.tensor([1 + 2j])).tolist()
    [2.0]
    """
    return as_tensor(x).imag


def _triangle(op: str, x: Tensor, k: int) -> Tensor:
    x = as_tensor(x)
    if len(x.shape) < 2:
        raise InvalidArgumentError(f"{op} takes at least 2 dimensions, not shape {x.shape}")
    kernel = np.tril if op == "tril" else np.triu
    return apply(RULES[op], lambda a: kernel(a, k), (x,), k=k)


@with_in_place("tril triu")
class Moving(TensorCore):
    """Methods that move elements, or return some of them."""

    __slots__ = ()

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
