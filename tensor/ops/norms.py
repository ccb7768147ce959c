"""Norms and ranks of matrices."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np

from tensor._dtypes import float32, is_floating
from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import wrap
from tensor.kernels.lapack import of_any_dtype
from tensor.ops.casts import astype
from tensor.ops.elementwise import abs as absolute
from tensor.ops.factorizations import svdvals
from tensor.ops.lapack import matrices_of, run_lapack, tolerance
from tensor.ops.reductions import max as largest
from tensor.ops.reductions import min as smallest
from tensor.ops.reductions import sum
from tensor.ops.scans import vector_norm
from tensor.ops.shapes import expand_dims

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Return the number of singular values of matrices above `rtol` times the largest, as int64.

    By default `rtol` is max(m, n) times the dtype's eps, for shape (..., m, n).

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.matrix_rank(tensor.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    y = matrices_of("matrix_rank", x)
    array = y._live_array()
    kernel = of_any_dtype(np.linalg.matrix_rank)
    return wrap(np.asarray(run_lapack("matrix_rank", kernel, array, rtol=tolerance(array, rtol))))


Norm = int | float | Literal["fro", "nuc"]


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Norm | None = "fro") -> Tensor:
    """Return a norm of matrices, shape (..., m, n).

    Parameters
    ----------
    ord
        ``"fro"`` or None: the root of the sum of squares; ``"nuc"``: the sum of the singular values; 2 and
        -2: the largest and smallest singular value; 1 and -1: the largest and smallest sum of absolute
        values of a column; inf and -inf: the largest and smallest sum of absolute values of a row.

    Raises
    ------
    ValueError
        If `ord` is not one of these.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> tensor.linalg.matrix_norm(x).item(), tensor.linalg.matrix_norm(x, ord="nuc").item()
    (5.0, 7.0)
    """
    y = matrices_of("matrix_norm", x)
    if ord is None or ord == "fro":
        return vector_norm(y, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc" or ord in (2, -2):
        values = svdvals(y)
        reduction = sum if ord == "nuc" else largest if ord == 2 else smallest
        found = _norm_of_empty(values) if values.shape[-1] == 0 else reduction(values, axis=-1)
    elif ord in (1, -1, inf, -inf):
        size = absolute(y)
        size = size if is_floating(size.dtype) else astype(size, float32)
        sums = sum(size, axis=-2 if ord in (1, -1) else -1, dtype=size.dtype)
        if sums.shape[-1] == 0:
            found = _norm_of_empty(sums)
        else:
            found = (largest if ord in (1, inf) else smallest)(sums, axis=-1)
    else:
        raise InvalidArgumentError(
            f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {shown(ord)}"
        )
    return expand_dims(found, axis=(-2, -1)) if keepdims else found


def _norm_of_empty(values: Tensor) -> Tensor:
    """Return 0, the norm of matrices without elements, as PyTorch does."""
    return sum(values, axis=-1, dtype=values.dtype)
