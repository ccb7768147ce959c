"""The LU factorization: Gaussian elimination with partial pivoting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.tensor import wrap
from tensor.kernels.lapack import lu as lu_kernel
from tensor.kernels.lapack import of_any_dtype
from tensor.ops.joining import concat
from tensor.ops.lapack import matrices_of, record_outputs, run_lapack
from tensor.ops.moving import tril, triu
from tensor.ops.selecting import take_along_axis
from tensor.ops.shapes import matrix_transpose
from tensor.ops.solving import solve
from tensor.tape.modes import is_recording

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_lu = of_any_dtype(lu_kernel)


class Factors(NamedTuple):
    """The LU factors of a matrix `x`: row i of ``lower @ upper`` is row ``order[i]`` of `x`."""

    lower: Tensor
    upper: Tensor
    pivots: Tensor
    order: Tensor


def factorize(x: Tensor) -> Factors:
    """Return the factors of matrices, shape (..., m, n): (..., m, k) and (..., k, n) with k = min(m, n).

    The lower factor has ones on its diagonal. Pivots are LAPACK's: step i swaps row i and row
    ``pivots[i]``, counted from 1. The gradient is that of de Hoog, Anderssen and Lukas (2011), and can be
    differentiated again. It requires that the first k rows and columns of ``lower @ upper`` have full rank.

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.rare.lu import factorize
    >>> factors = factorize(tensor.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> factors.lower.tolist(), factors.upper.tolist(), factors.pivots.tolist()
    ([[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]], [2, 2])
    """
    y = matrices_of("lu", x)
    packed, pivots, order = run_lapack("lu", _lu, y._live_array())
    steps = pivots.shape[-1]
    lower = np.tril(packed[..., :steps], -1) + np.eye(*packed.shape[-2:], dtype=packed.dtype)[:, :steps]
    upper = np.triu(packed[..., :steps, :])
    ends = wrap(pivots), wrap(order)
    if not (y.requires_grad and is_recording()):
        return Factors(wrap(lower), wrap(np.ascontiguousarray(upper)), *ends)
    rows = take_along_axis(y, ends[1][..., None], axis=-2)
    square = rows[..., :steps, :steps]
    arrays = {"lower": lower[..., :steps, :], "upper": upper[..., :steps]}
    first, last = record_outputs("lu", square, arrays)
    if y.shape[-2] > steps:
        below = solve(matrix_transpose(last), matrix_transpose(rows[..., steps:, :]))
        first = concat([first, matrix_transpose(below)], axis=-2)
    elif y.shape[-1] > steps:
        last = concat([last, solve(first, rows[..., steps:])], axis=-1)
    return Factors(first, last, *ends)


def packed(factors: Factors) -> Tensor:
    """Return both factors in one matrix: the upper one, and below its diagonal the lower one."""
    lower, upper = factors.lower, factors.upper
    rows, columns = lower.shape[-2], upper.shape[-1]
    below = tril(lower, k=-1)
    if columns > lower.shape[-1]:
        below = concat([below, _zeros(below, (rows, columns - rows))], axis=-1)
    above = triu(upper)
    if rows > upper.shape[-2]:
        above = concat([above, _zeros(above, (rows - columns, columns))], axis=-2)
    return below + above


def plu(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a permutation matrix and the lower and upper factor, whose product is `x`."""
    factors = factorize(x)
    return permutation(factors.order, x), factors.lower, factors.upper


def unpack_plu(both: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of ``plu``, from both factors in one matrix and their pivots."""
    return permutation(order_of(pivots, both.shape[-2]), both), *unpacked(both)


def unpacked(factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lower and the upper factor from both in one matrix."""
    y = matrices_of("lu", factors)
    steps = min(y.shape[-2:])
    ones = wrap(np.eye(y.shape[-2], steps, dtype=y.dtype))
    return tril(y[..., :steps], k=-1) + ones, triu(y[..., :steps, :])


def order_of(pivots: Tensor, rows: int) -> Tensor:
    """Return the order of `rows` rows after the swaps of `pivots`."""
    steps = pivots._live_array()
    if steps.size and not 1 <= steps.min() <= steps.max() <= rows:
        raise InvalidArgumentError(
            f"pivots are from 1 to {rows}, the number of rows, not {steps.min()} to {steps.max()}: pass "
            "those that lu_factor returned"
        )
    batch = steps.shape[:-1]
    order = np.broadcast_to(np.arange(rows), (*batch, rows)).copy()
    for j in range(steps.shape[-1]):
        place = steps[..., j, None] - 1
        moved = np.take_along_axis(order, place, -1)
        np.put_along_axis(order, place, order[..., j, None].copy(), -1)
        order[..., j, None] = moved
    return wrap(order)


def permutation(order: Tensor, like: Tensor) -> Tensor:
    """Return the permutation matrices P of ``P @ L @ U`` in the dtype of `like`."""
    rows = order._live_array()
    return wrap(np.swapaxes(np.eye(rows.shape[-1], dtype=like.dtype)[rows], -1, -2).copy())


def _zeros(like: Tensor, sizes: tuple[int, int]) -> Tensor:
    return wrap(np.zeros((*like.shape[:-2], *sizes), like.dtype))
