"""Inverses, solutions, determinants and powers of matrices and of batches of matrices."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scopes._shared.naming import set_module
from tensor.core.promotion import promoted
from tensor.core.tensor import wrap
from tensor.kernels.lapack import of_any_dtype
from tensor.ops.data import as_tensor
from tensor.ops.lapack import matrices_of, record_outputs, run_lapack, tolerance
from tensor.ops.linalg import matmul
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


@set_module("tensor.linalg")
class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


_inv = of_any_dtype(np.linalg.inv)
_det = of_any_dtype(np.linalg.det)
_slogdet = of_any_dtype(lambda a: tuple(np.linalg.slogdet(a)))
_solve = of_any_dtype(np.linalg.solve)
_pinv = of_any_dtype(np.linalg.pinv)


def inv(x: Tensor, /) -> Tensor:
    """Return the inverses of square matrices, shape (..., n, n).

    The gradient is -inv(x)^H g inv(x)^H (Giles 2008). It can be differentiated again.

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.inv(tensor.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    y = matrices_of("inv", x, square=True)
    out = np.asarray(run_lapack("inv", _inv, y._live_array()))
    return wrap_recorded(out, record(RULES["inv"], (y,), out, {}))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Return the Moore-Penrose pseudo-inverses, (..., n, m), of matrices of shape (..., m, n).

    Singular values of at most `rtol` times the largest count as 0. The default `rtol` is max(m, n) times the
    dtype's eps.

    The gradient is that of Golub and Pereyra (1973). It can be differentiated again. It only exists if all
    matrices near `x` have the same rank.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.pinv(tensor.tensor([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    y = matrices_of("pinv", x)
    array = y._live_array()
    out = np.asarray(run_lapack("pinv", _pinv, array, rtol=tolerance(array, rtol)))
    return wrap_recorded(out, record(RULES["pinv"], (y,), out, {}))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return y such that x1 @ y = x2, for square matrices `x1`, shape (..., n, n).

    `x2` is one vector, shape (n,), or matrices of columns, (..., n, k); the other dimensions broadcast. The
    gradient of `x2` is h = solve(x1^H, g), and the one of `x1` is -h y^H (Giles 2008). Both can be
    differentiated again.

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.solve(tensor.tensor([[2.0, 0.0], [0.0, 4.0]]), tensor.tensor([1.0, 1.0])).tolist()
    [0.5, 0.25]
    """
    a, b = matrices_of("solve", x1, square=True), as_tensor(x2)
    arrays = promoted((a._live_array(), b._live_array()))
    out = np.asarray(run_lapack("solve", _solve, *arrays))
    return wrap_recorded(out, record(RULES["solve"], (a, b), out, {"is_vector": b.ndim == 1}))


def det(x: Tensor, /) -> Tensor:
    """Return the determinants of square matrices, shape (..., n, n): (...).

    The gradient is g conj(det) inv(x)^H (Giles 2008), and is computed from cofactors if a determinant is 0.
    It can be differentiated again.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.det(tensor.tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    8.0
    """
    y = matrices_of("det", x, square=True)
    out = np.asarray(run_lapack("det", _det, y._live_array()))
    return wrap_recorded(out, record(RULES["det"], (y,), out, {}))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Return the signs of the determinants of square matrices, and the logarithms of their absolute values.

    The logarithm is finite even if the determinant itself is too large or too small for the dtype. The sign
    of a complex determinant is a number of modulus 1. The gradient of the logarithm is g inv(x)^H (Giles
    2008). It can be differentiated again. For singular matrices, whose logarithm is -inf, backward raises
    ``LinAlgError``.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.slogdet(tensor.tensor([[-1.0, 0.0], [0.0, 1.0]])).sign.item()
    -1.0
    """
    y = matrices_of("slogdet", x, square=True)
    sign, logabsdet = map(np.asarray, run_lapack("slogdet", _slogdet, y._live_array()))
    return SlogdetResult(*record_outputs("slogdet", y, {"sign": sign, "logabsdet": logabsdet}))


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Return square matrices to the power `n`. If `n` is negative, return powers of their inverses.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.matrix_power(tensor.tensor([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    y = matrices_of("matrix_power", x, square=True)
    count = index(n)
    if count == 0:
        identity = np.eye(y.shape[-1], dtype=y.dtype)
        return wrap(np.broadcast_to(identity, y.shape).copy())
    if count < 0:
        y, count = inv(y), -count
    return y.clone() if count == 1 else _power(y, count)


def _power(x: Tensor, n: int) -> Tensor:
    if n == 1:
        return x
    half = _power(x, n // 2)
    square = matmul(half, half)
    return matmul(square, x) if n % 2 else square
