"""Change the order of elements; read diagonals, triangles, and parts of complex numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, dims_of, sizes_of
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


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
