"""Methods that factorize matrices (LU, Cholesky, Householder), and solve systems with the factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._errors import InvalidArgumentError
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore, wrap
from tensor.ops.data import as_tensor
from tensor.ops.linalg import matmul
from tensor.ops.moving import tril, triu
from tensor.ops.shapes import matrix_transpose

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.kernels import lapack as kernels
    from tensor.ops import lapack, results, solving
    from tensor.ops.rare import lu
    from tensor.ops.results import LUFactor, LUFactorEx, Reflectors, TriangularSolve
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


def _reflected(vectors: Tensor, tau: Tensor, other: Tensor, is_forward: bool) -> Tensor:
    """Apply the reflectors to `other`, the last one first, or with `is_forward` the first one first."""
    count = tau.shape[-1]
    ones = wrap(np.eye(vectors.shape[-2], count, dtype=vectors.dtype))
    columns = tril(vectors, k=-1)[..., :count] + ones
    for i in range(count) if is_forward else reversed(range(count)):
        v, t = columns[..., i : i + 1], tau[..., i, None, None]
        other = other - t * matmul(v, matmul(v.mH, other))
    return other


class Factoring(TensorCore):
    """Methods that factorize matrices, and solve systems with the factors."""

    __slots__ = ()

    def lu(self, pivot: bool = True, get_infos: bool = False) -> LUFactor | LUFactorEx:
        """Return the LU factors in one matrix, and the pivots.

        With `get_infos`, also return the number of the first zero pivot, counted from 1, or 0 for none.

        Examples
        --------
        >>> import tensor
        >>> factors, pivots = tensor.tensor([[1.0, 2.0], [2.0, 2.0]]).lu()
        >>> factors.tolist(), pivots.tolist()
        ([[2.0, 2.0], [0.5, 1.0]], [2, 2])
        """
        found = factor_lu(as_tensor(self), pivot)
        return found if get_infos else results.LUFactor(*found[:2])

    @composite
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803 -- PyTorch's names
        """Return x such that ``A @ x`` is this tensor, from the factors of A that ``lu()`` returns.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 1)).lu_solve(*tensor.tensor([[2.0]]).lu()).tolist()
        [[0.5]]
        """
        return solve_lu(LU_data, LU_pivots, as_tensor(self))

    @composite
    def cholesky_solve(self, input2: Tensor, upper: bool = False) -> Tensor:
        """Return x such that ``A @ x`` is this tensor, from the Cholesky factor `input2` of A.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 1)).cholesky_solve(tensor.tensor([[2.0]])).tolist()
        [[0.25]]
        """
        lower = input2.mH if upper else input2
        return solve_triangular(lower.mH, solve_triangular(lower, as_tensor(self), upper=False), upper=True)

    @composite
    def cholesky_inverse(self, upper: bool = False) -> Tensor:
        """Return the inverse of the matrix whose Cholesky factor is this tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[2.0]]).cholesky_inverse().tolist()
        [[0.25]]
        """
        factor = lapack.matrices_of("cholesky_inverse", self, square=True)
        one = np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape).copy()
        return wrap(one).cholesky_solve(factor, upper)

    @composite
    def triangular_solve(
        self,
        A: Tensor,  # noqa: N803
        upper: bool = True,
        transpose: bool = False,
        unitriangular: bool = False,
    ) -> TriangularSolve:
        """Return x such that ``A @ x`` is this tensor, for a triangular `A`, and a copy of `A`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 1)).triangular_solve(tensor.tensor([[2.0]])).solution.tolist()
        [[0.5]]
        """
        read = A.mT if transpose else A
        found = solve_triangular(read, as_tensor(self), upper=upper != transpose, unitriangular=unitriangular)
        return results.TriangularSolve(found, A.clone())

    def geqrf(self) -> Reflectors:
        """Return R with the reflectors of Q below its diagonal, and their factors, without a gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[3.0], [4.0]]).geqrf().a.tolist()
        [[-5.0], [0.5]]
        """
        h, tau = lapack.run_lapack(
            "geqrf",
            kernels.of_any_dtype(np.linalg.qr),
            lapack.matrices_of("geqrf", self)._live_array(),
            mode="raw",
        )
        return results.Reflectors(wrap(np.swapaxes(h, -1, -2).copy()), wrap(tau))

    @composite
    def orgqr(self, input2: Tensor) -> Tensor:
        """Return the first columns of Q, the product of this tensor's reflectors with factors `input2`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 1)).orgqr(tensor.zeros((1,))).tolist()
        [[1.0], [0.0]]
        """
        vectors = lapack.matrices_of("orgqr", self)
        if vectors.shape[-2] < vectors.shape[-1] or vectors.shape[-1] < input2.shape[-1]:
            raise InvalidArgumentError(
                f"orgqr takes reflectors of shape (..., m, n) with m >= n, and at most n factors, not shapes "
                f"{vectors.shape} and {input2.shape}"
            )
        one = np.broadcast_to(np.eye(*vectors.shape[-2:], dtype=vectors.dtype), vectors.shape).copy()
        return _reflected(vectors, input2, wrap(one), is_forward=False)

    @composite
    def ormqr(self, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
        """Return ``Q @ input3`` for the reflectors of Q and their factors `input2`.

        With `transpose`, multiply by the conjugate transpose of Q. If `left` is False, multiply from the
        right.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 1)).ormqr(tensor.zeros((1,)), tensor.ones((2, 1))).tolist()
        [[1.0], [1.0]]
        """
        if not left:
            # C @ Q is (Q^H @ C^H)^H.
            return self.ormqr(input2, input3.mH, transpose=not transpose).mH
        factors = input2.conj() if transpose else input2
        return _reflected(as_tensor(self), factors, input3, is_forward=transpose)
