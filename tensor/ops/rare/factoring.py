"""Methods that factorize matrices (LU, Cholesky, Householder), and solve systems with the factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import wrap
from tensor.ops.linalg import matmul
from tensor.ops.moving import tril, triu
from tensor.ops.shapes import matrix_transpose

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.kernels import lapack as kernels
    from tensor.ops import lapack, results, solving
    from tensor.ops.rare import lu
    from tensor.ops.results import LUFactorEx
else:
    kernels = ModuleOnDemand("tensor.kernels.lapack")
    lapack = ModuleOnDemand("tensor.ops.lapack")
    lu = ModuleOnDemand("tensor.ops.rare.lu")
    results = ModuleOnDemand("tensor.ops.results")
    solving = ModuleOnDemand("tensor.ops.solving")


def factor_lu(x: Tensor, pivot: bool = True) -> LUFactorEx:
    """Return LU factors of matrices, their pivots, and the number of the first zero pivot of each matrix."""
    if not pivot:
        raise InvalidArgumentError(
            "lu: pivot=False works only on CUDA in PyTorch, and not here: write pivot=True"
        )
    factors = lu.factorize(x)
    both = lu.packed(factors)
    is_zero = np.diagonal(both._live_array(), axis1=-2, axis2=-1) == 0
    first = is_zero.argmax(-1) + 1 if is_zero.shape[-1] else np.zeros(is_zero.shape[:-1], np.int64)
    info = np.where(is_zero.any(-1), first, 0).astype(np.int32)
    return results.LUFactorEx(both, factors.pivots, wrap(info))


def solve_lu(
    factors: Tensor, pivots: Tensor, other: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """Return x with ``A @ x = other``, or ``x @ A = other`` if `left` is False, from the LU factors of A.

    With `adjoint`, A is replaced by its conjugate transpose.
    """
    if not left:
        # x @ A = b is A^H @ x^H = b^H.
        return solve_lu(factors, pivots, other.mH, adjoint=not adjoint).mH
    lower, upper = lu.unpacked(factors)
    moved = lu.permutation(lu.order_of(pivots, factors.shape[-2]), factors)
    if adjoint:
        return matmul(moved, solving.solve(lower.mH, solving.solve(upper.mH, other)))
    return solving.solve(upper, solving.solve(lower, matmul(matrix_transpose(moved), other)))


def solve_triangular(
    matrix: Tensor, other: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Solve ``matrix @ x = other`` for triangular matrices, or ``x @ matrix = other`` if `left` is False."""
    kept = 1 if unitriangular else 0
    read = triu(matrix, k=kept) if upper else tril(matrix, k=-kept)
    if unitriangular:
        read = read + wrap(np.eye(matrix.shape[-1], dtype=matrix.dtype))
    return solving.solve(read, other) if left else solving.solve(read.mT, other.mT).mT
