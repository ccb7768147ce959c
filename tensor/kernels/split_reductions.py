"""Reductions of large arrays on several threads, with NumPy's own result to the last bit.

NumPy adds up floats by halves: the sum of a long array is that of its first half plus that of its second. So
the cut follows its halves, and what comes out depends neither on the number of threads nor on their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels.pieces import in_pieces, threads
from tensor.kernels.splitting import least, step_for
from tensor.memory.allocator import empty

if TYPE_CHECKING:
    from tensor._dtypes import Array

# Elements: halves are halved as long as they are longer.
_LONGEST = 1 << 18
# A maximum takes so many times less than a sum.
_QUICKER = 4


def reduce_on_threads(ufunc: Any, array: Array, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Return ``ufunc.reduce`` of a C-contiguous array; None for what is too small, or can't be cut."""
    if array.nbytes < least[ufunc] * (1 if ufunc is np.add else _QUICKER):
        return None
    if not _is_exact(ufunc, array.dtype) or (dtype is not None and dtype != array.dtype):
        return None
    if isinstance(axis, tuple):
        if len(axis) == array.ndim:
            axis = None
        elif len(axis) == 1:
            (axis,) = axis
        else:
            return None
    if axis is None or array.ndim == 1:
        total = _whole(ufunc, array.reshape(-1))
        return np.full((1,) * array.ndim, total) if keepdims else total
    axis %= array.ndim
    shape = array.shape
    # Along another axis memory is all that counts: the sum of 10,000 rows gains nothing.
    out = _by_rows(ufunc, array.reshape(-1, shape[-1])) if axis == array.ndim - 1 else None
    if out is None:
        return None
    left = [1 if i == axis else n for i, n in enumerate(shape) if keepdims or i != axis]
    return out if out.shape == tuple(left) else out.reshape(left)


def _is_exact(ufunc: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether the order of the pieces is NumPy's own, or makes no difference."""
    if ufunc is np.add:
        return dtype.kind == "f" and dtype.itemsize in (4, 8)
    return ufunc in (np.maximum, np.minimum) and dtype.kind in "fiu"


def _whole(ufunc: Any, flat: Array) -> Any:
    ends = _halves(0, len(flat))
    parts = np.empty(len(ends), flat.dtype)

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            start, end = ends[i]
            parts[i] = ufunc.reduce(flat[start:end])

    in_pieces(run, len(ends), step_for(len(ends)))
    left = iter(parts)

    def joined(n: int) -> Any:
        if n <= _LONGEST:
            return next(left)
        half = _half(n)
        return ufunc(joined(half), joined(n - half))

    return joined(len(flat))


def _half(n: int) -> int:
    """Return where NumPy cuts `n` elements to add up both parts by themselves."""
    return n // 2 - n // 2 % 8


def _halves(start: int, n: int) -> list[tuple[int, int]]:
    if n <= _LONGEST:
        return [(start, start + n)]
    half = _half(n)
    return _halves(start, half) + _halves(start + half, n - half)


def _by_rows(ufunc: Any, rows: Array) -> Array | None:
    size = len(rows)
    if size < 2 * threads.count:
        return None
    out = empty((size,), rows.dtype)
    in_pieces(lambda start, end: ufunc.reduce(rows[start:end], 1, None, out[start:end]), size, step_for(size))
    return out


def reduce_large(ufunc: Any, array: Array, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Return ``ufunc.reduce(array, axis, dtype, None, keepdims)``, on several threads where that pays."""
    if array.nbytes >= least[ufunc] and array.flags.c_contiguous:
        found = reduce_on_threads(ufunc, array, axis, dtype, keepdims)
        if found is not None:
            return found
    return ufunc.reduce(array, axis, dtype, None, keepdims)
