"""``torch.linalg``: solvers, and inverses and factors that return an error code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tensor as tn
from tensor import InvalidArgumentError, Tensor
from tensor import linalg as _ours
from tensor.linalg import LinAlgError
from tensor.ops.rare.factoring import factor_lu
from tensor.ops.rare.factoring import solve_triangular as _solve_triangular
from tensor.torch.calling import with_out


class CholeskyEx(NamedTuple):
    """The factor, and the order of the first leading minor that is not positive; 0 if all are."""

    L: Tensor
    info: Tensor


class InvEx(NamedTuple):
    """The inverse, and the first zero pivot, counted from 1; 0 if none is zero."""

    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    """The solution, and the first zero pivot, counted from 1; 0 if none is zero."""

    result: Tensor
    info: Tensor


def _first_minor(matrix: Any) -> int:
    """Return the order of the first leading minor that is not positive; 0 if all are."""
    for n in range(1, len(matrix) + 1):
        try:
            np.linalg.cholesky(matrix[:n, :n])
        except np.linalg.LinAlgError:
            return n
    return 0


def _where_regular(A: Tensor, info: Tensor) -> Tensor:
    """Replace the matrices for which `info` is not 0 by the identity."""
    return tn.where((info == 0)[..., None, None], A, tn.eye(A.shape[-1], dtype=A.dtype))


def _require_regular(name: str, info: Tensor, check_errors: bool) -> None:
    if check_errors and info.any():
        raise LinAlgError(
            f"{name}: at least one matrix has no result: write check_errors=False, and look at info"
        )


@with_out
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Solve ``A @ X = B``, or ``X @ A = B`` if `left` is False.

    `B` is a vector, a batch of vectors (one dimension less than `A`), or matrices.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.solve(torch.tensor([[[2.0]], [[4.0]]]), torch.ones(2, 1)).tolist()
    [[0.5], [0.25]]
    """
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    if is_vector:
        if not left:
            raise InvalidArgumentError("solve: left=False takes matrices, not vectors: write B.unsqueeze(-2)")
        return _ours.solve(A, B.unsqueeze(-1)).squeeze(-1)
    if left:
        return _ours.solve(A, B)
    return _ours.solve(A.mT, B.mT).mT


@with_out
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Solve ``A @ X = B`` for triangular `A`, or ``X @ A = B`` if `left` is False.

    Parameters
    ----------
    upper
        Whether to use the upper triangle of `A` instead of the lower one.
    unitriangular
        Whether the diagonal is assumed to be 1.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.solve_triangular(torch.tensor([[2.0]]), torch.ones(1, 1), upper=True).tolist()
    [[0.5]]
    """
    return _solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)


@with_out
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """Return the Cholesky factor, and an error code for each matrix instead of an exception.

    For a matrix that is not positive definite, the factor is the identity.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.cholesky_ex(-torch.eye(2)).info.item()
    1
    """
    array = A._live_array()
    try:
        np.linalg.cholesky(array)
        minors = np.zeros(array.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        flat = array.reshape(-1, *array.shape[-2:])
        minors = np.array([_first_minor(x) for x in flat], np.int32).reshape(array.shape[:-2])
    info = tn.asarray(minors)
    _require_regular("cholesky_ex", info, check_errors)
    return CholeskyEx(_ours.cholesky(_where_regular(A, info) if minors.any() else A, upper=upper), info)


@with_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:
    """Return the inverse, and an error code for each matrix instead of an exception.

    For a singular matrix, the inverse is the identity.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.inv_ex(torch.zeros(2, 2)).info.item()
    1
    """
    info = factor_lu(A.detach()).info
    _require_regular("inv_ex", info, check_errors)
    return InvEx(_ours.inv(_where_regular(A, info) if info.any() else A), info)


@with_out
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """Return the solution, and an error code for each matrix instead of an exception.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.solve_ex(torch.zeros(2, 2), torch.ones(2)).info.item()
    1
    """
    info = factor_lu(A.detach()).info
    _require_regular("solve_ex", info, check_errors)
    return SolveEx(solve(_where_regular(A, info) if info.any() else A, B, left=left), info)
