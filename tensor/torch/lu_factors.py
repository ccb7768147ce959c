"""LU factorizations in PyTorch's call forms."""

from __future__ import annotations

from typing import NamedTuple

from tensor import Tensor
from tensor.linalg import LinAlgError
from tensor.ops.rare.factoring import factor_lu, solve_lu
from tensor.ops.rare.lu import plu, unpack_plu
from tensor.ops.results import LUFactor, LUFactorEx
from tensor.torch.calling import with_out

__all__ = ["lu_unpack"]


class PLU(NamedTuple):
    """A permutation matrix, the lower and the upper factor: ``P @ L @ U`` is the original matrix."""

    P: Tensor
    L: Tensor
    U: Tensor


@with_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """Return the LU factors of matrices in one matrix, and the pivots; see ``torch.lu_unpack``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> factors, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> factors.tolist(), pivots.tolist()
    ([[2.0, 2.0], [0.5, 1.0]], [2, 2])
    """
    return LUFactor(*factor_lu(A, pivot)[:2])


@with_out
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """Return the results of ``lu_factor``, and the 1-based index of the first zero pivot, or 0.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.lu_factor_ex(torch.zeros(2, 2)).info.item()
    1
    """
    found = factor_lu(A, pivot)
    if check_errors and found.info.any():
        raise LinAlgError(
            "lu_factor_ex: at least one matrix is singular: write check_errors=False, and look at info"
        )
    return found


@with_out
def lu(A: Tensor, *, pivot: bool = True) -> PLU:
    """Return a permutation matrix, a lower and an upper factor, whose product is `A`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> P, L, U = torch.linalg.lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> (P @ L @ U).tolist()
    [[1.0, 2.0], [2.0, 2.0]]
    """
    if not pivot:
        factor_lu(A, pivot)  # raises
    return PLU(*plu(A))


@with_out
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Solve ``A @ X = B`` with the LU factors of A, or ``X @ A = B`` if `left` is False.

    With `adjoint`, the conjugate transpose of A replaces A.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> factors, pivots = torch.linalg.lu_factor(torch.tensor([[2.0]]))
    >>> torch.linalg.lu_solve(factors, pivots, torch.ones(1, 1)).tolist()
    [[0.5]]
    """
    return solve_lu(LU, pivots, B, left=left, adjoint=adjoint)


@with_out
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> PLU:
    """Return P, L and U from the results of ``linalg.lu_factor``. A tensor that is not requested is empty.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]])))
    >>> (P @ L @ U).tolist()
    [[1.0, 2.0], [2.0, 2.0]]
    """
    none = LU_data.new_empty((0,))
    moved, lower, upper = unpack_plu(LU_data, LU_pivots)
    return PLU(moved if unpack_pivots else none, *((lower, upper) if unpack_data else (none, none)))
