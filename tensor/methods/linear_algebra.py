"""Products, decompositions and solvers of matrices as methods.

The functions are in ``linalg.py``, ``matrices.py``, ``factorizations.py`` and ``solving.py`` of `tensor.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._dtypes import int64, is_floating, is_inexact, result_type
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dims_of, named_sizes, sizes_of
from tensor.core.tensor import TensorCore, composite, wrap
from tensor.ops import elementwise, table
from tensor.ops.data import as_tensor
from tensor.ops.elementwise import conj
from tensor.ops.joining import concat
from tensor.ops.linalg import cross, matmul, outer, require_dims, tensordot, trace, vecdot
from tensor.ops.matrices import plus_product
from tensor.ops.messages import Operand
from tensor.ops.moving import flip, tril
from tensor.ops.scaling import cast, require_whole, wide_dtype
from tensor.ops.shapes import matrix_transpose
from tensor.ops.writing import become

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.kernels import lapack as kernels
    from tensor.ops import factorizations, fourier, lapack, results, solving
    from tensor.ops.rare import complex_views, factoring
    from tensor.ops.results import LUFactor, LUFactorEx, QRResult, Reflectors, TriangularSolve
else:
    factorizations = ModuleOnDemand("tensor.ops.factorizations")
    solving = ModuleOnDemand("tensor.ops.solving")
    kernels = ModuleOnDemand("tensor.kernels.lapack")
    results = ModuleOnDemand("tensor.ops.results")
    lapack = ModuleOnDemand("tensor.ops.lapack")
    complex_views = ModuleOnDemand("tensor.ops.rare.complex_views")
    factoring = ModuleOnDemand("tensor.ops.rare.factoring")
    fourier = ModuleOnDemand("tensor.ops.fourier")

# The number of terms of the exponential series, for an error of 1e-16 for matrices of norm 1/2.
_TERMS = 16
_Norm = Literal["backward", "ortho", "forward"]
_PADDING = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "constant": "constant"}


class LinearAlgebra(TensorCore):
    """Products, decompositions and solvers of matrices as methods."""

    __slots__ = ()

    # --- Products -------------------------------------------------------------------------------------------

    vecdot = vecdot

    def outer(self, vec2: Operand) -> Tensor:
        """Return the outer product of two vectors: ``x[i] * vec2[j]`` at ``[i, j]``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).outer(vec2=tensor.tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        return outer(self, vec2)

    def matmul(self, other: Operand) -> Tensor:
        """Return the product of matrices, of vectors, or of batches: ``x @ other``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).matmul(tensor.ones((3,))).tolist()
        [3.0, 3.0]
        """
        return table.matmul(self, other)

    def mm(self, mat2: Tensor) -> Tensor:
        """Return the product of two matrices.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 2)).mm(tensor.ones((2, 1))).tolist()
        [[2.0]]
        """
        return _of_dims("mm", self, mat2, 2, 2)

    def bmm(self, mat2: Tensor) -> Tensor:
        """Return the products of two batches of matrices, (b, n, k) and (b, k, m).

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((5, 1, 2)).bmm(tensor.ones((5, 2, 3))).shape
        (5, 1, 3)
        """
        return _of_dims("bmm", self, mat2, 3, 3)

    def mv(self, vec: Tensor) -> Tensor:
        """Return the product of a matrix and a vector.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 2)).mv(tensor.ones((2,))).tolist()
        [2.0]
        """
        return _of_dims("mv", self, vec, 2, 1)

    def dot(self, tensor: Tensor) -> Tensor:
        """Return the sum of products of two vectors.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3,)).dot(tensor.ones((3,))).item()
        3.0
        """
        return _of_dims("dot", self, tensor, 1, 1)

    def trace(self) -> Tensor:
        """Return the sum of a matrix's diagonal.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 2)).trace().item()
        2.0
        """
        x = as_tensor(self)
        if x.ndim != 2:
            raise InvalidArgumentError(
                f"trace takes a matrix, not shape {x.shape}: tensor.trace takes batches of them"
            )
        return trace(x, dtype=int64 if x.dtype.kind == "u" else None)

    def cross(self, other: Tensor, dim: int | None = None) -> Tensor:
        """Return the cross products of 3-element vectors along `dim`, by default the first of size 3.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 0, 0]).cross(tensor.tensor([0, 1, 0])).tolist()
        [0, 0, 1]
        """
        x = as_tensor(self)
        if dim is None:
            if 3 not in x.shape:
                raise InvalidArgumentError(f"cross takes vectors of size 3, and shape {x.shape} has no 3")
            dim = x.shape.index(3) - x.ndim  # from the end, where shapes broadcast
        return cross(x, other, axis=dim)

    def adjoint(self) -> Tensor:
        """Return the conjugate transpose of the last two dimensions. It is a view for a real dtype.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1j, 2j]]).adjoint().tolist()
        [[-1j], [-2j]]
        """
        x = as_tensor(self)
        return matrix_transpose(conj(x) if x.is_complex() else x)

    # --- Sums of products, and diagonals --------------------------------------------------------------------

    @composite
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * (mat1 @ mat2)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).addmm(tensor.ones((2, 3)), tensor.ones((3, 1))).tolist()
        [[4.0], [4.0]]
        """
        return plus_product(self, as_tensor(mat1).mm(mat2), beta, alpha)

    @composite
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * (mat @ vec)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).addmv(tensor.ones((2, 3)), tensor.ones((3,))).tolist()
        [4.0, 4.0]
        """
        return plus_product(self, as_tensor(mat).mv(vec), beta, alpha)

    @composite
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * outer(vec1, vec2)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 2)).addr(tensor.ones((1,)), tensor.ones((2,))).tolist()
        [[2.0, 2.0]]
        """
        require_whole("addr", beta, self, vec1, vec2, factor="beta")
        require_whole("addr", alpha, self, vec1, vec2)
        dtype = result_type(self, vec1, vec2)
        wide = wide_dtype(dtype)
        product = outer(cast(vec1, wide), cast(vec2, wide))
        return cast(plus_product(cast(self, wide), product, beta, alpha), dtype)

    @composite
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * (batch1 @ batch2)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).baddbmm(tensor.ones((2, 1, 3)), tensor.ones((2, 3, 1))).tolist()
        [[[4.0]], [[4.0]]]
        """
        return plus_product(self, as_tensor(batch1).bmm(batch2), beta, alpha)

    def ger(self, vec2: Tensor) -> Tensor:
        """Return the outer product of two vectors: PyTorch's older name for ``outer``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).ger(tensor.tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        return outer(self, vec2)

    def inner(self, other: Tensor) -> Tensor:
        """Return the sums of products over the last dimension of both tensors.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).inner(tensor.ones((4, 3))).shape
        (2, 4)
        """
        a, b = as_tensor(self), as_tensor(other)
        if a.ndim == 0 or b.ndim == 0:
            return elementwise.multiply(a, b)
        return tensordot(a, b, axes=((-1,), (-1,)))

    def vdot(self, other: Tensor) -> Tensor:
        """Return the sum of the products of two vectors, the first one conjugated.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1j]).vdot(tensor.tensor([1j])).item()
        (1+0j)
        """
        x = as_tensor(self)
        return (elementwise.conj(x) if x.is_complex() else x).dot(other)

    def dist(self, other: Tensor, p: float = 2) -> Tensor:
        """Return the `p`-norm of the difference.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0, 4.0]).dist(tensor.zeros((2,))).item()
        5.0
        """
        return elementwise.subtract(self, other).norm(p)

    def diag(self, diagonal: int = 0) -> Tensor:
        """Return a matrix with this vector on a diagonal, or a copy of a diagonal of this matrix.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).diag().tolist(), tensor.tensor([[1, 2], [3, 4]]).diag(1).tolist()
        ([[1, 0], [0, 2]], [2])
        """
        x = as_tensor(self)
        if x.ndim == 1:
            return x.diag_embed(diagonal)
        if x.ndim != 2:
            raise InvalidArgumentError(f"diag takes a vector or a matrix, not shape {x.shape}")
        return x.diagonal(diagonal).clone()

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Return matrices, in the dimensions `dim1` and `dim2`, with the last dimension on a diagonal.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3, 2)).diag_embed().shape
        (3, 2, 2)
        """
        x = as_tensor(self)
        first, second = dims_of("diag_embed", (dim1, dim2), x.ndim + 1)
        size = x.shape[-1] + abs(offset)
        rest = iter(x.shape[:-1])
        shape = [size if i in (first, second) else next(rest) for i in range(x.ndim + 1)]
        out = x.new_zeros(shape)
        out.diagonal(offset, first, second).copy_(x)
        return out

    def fill_diagonal_(self, fill_value: complex, wrap: bool = False) -> Self:
        """Write `fill_value` on the main diagonal. With `wrap`, it begins again below, after an empty row.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).fill_diagonal_(1).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        x = as_tensor(self)
        if x.ndim != 2:
            raise InvalidArgumentError(f"fill_diagonal_ takes a matrix, not shape {x.shape}")
        rows, columns = x.shape
        for start in range(0, rows if wrap else 1, columns + 1):
            x[start : start + columns].diagonal().fill_(fill_value)
        return self

    def fliplr(self) -> Tensor:
        """Return a copy with the columns in reverse order.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2]]).fliplr().tolist()
        [[2, 1]]
        """
        if as_tensor(self).ndim < 2:
            raise InvalidArgumentError(
                f"fliplr takes at least two dimensions, not shape {as_tensor(self).shape}"
            )
        return flip(as_tensor(self), axis=1)

    def flipud(self) -> Tensor:
        """Return a copy with the rows in reverse order.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).flipud().tolist()
        [2, 1]
        """
        if as_tensor(self).ndim < 1:
            raise InvalidArgumentError(
                "flipud takes at least one dimension: reshape the tensor to (1,) first"
            )
        return flip(as_tensor(self), axis=0)

    @property
    def H(self) -> Tensor:  # noqa: N802 - the name that users know
        """The conjugate transpose of a matrix. It is a view for a real dtype."""
        x = as_tensor(self)
        if x.ndim != 2:
            advice = ": write x.mH for a batch of matrices" if x.ndim > 2 else ""
            raise InvalidArgumentError(f"H takes a matrix, not shape {x.shape}{advice}")
        return x.mH

    @property
    def mH(self) -> Tensor:  # noqa: N802 - the name that users know
        """The conjugate transpose of the last two dimensions. It is a view for a real dtype."""
        x = as_tensor(self)
        return matrix_transpose(elementwise.conj(x) if x.is_complex() else x)

    @composite
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """Write the result of ``addmm`` to the tensor, which keeps its shape and dtype."""
        become("addmm", as_tensor(self), as_tensor(self).addmm(mat1, mat2, beta=beta, alpha=alpha))
        return self

    @composite
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """Write the result of ``addmv`` to the tensor, which keeps its shape and dtype."""
        become("addmv", as_tensor(self), as_tensor(self).addmv(mat, vec, beta=beta, alpha=alpha))
        return self

    @composite
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """Write the result of ``addr`` to the tensor, which keeps its shape and dtype."""
        become("addr", as_tensor(self), as_tensor(self).addr(vec1, vec2, beta=beta, alpha=alpha))
        return self

    @composite
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """Write the result of ``baddbmm`` to the tensor, which keeps its shape and dtype."""
        become("baddbmm", as_tensor(self), as_tensor(self).baddbmm(batch1, batch2, beta=beta, alpha=alpha))
        return self

    # --- Decompositions -------------------------------------------------------------------------------------

    @composite
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return `beta` times the tensor plus `alpha` times the sum of the products of matrices.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).addbmm(tensor.ones((2, 1, 3)), tensor.ones((2, 3, 1))).tolist()
        [[7.0]]
        """
        product = as_tensor(batch1).bmm(batch2)
        product = product.sum(0, dtype=product.dtype)
        return plus_product(self, product, beta, alpha)

    @composite
    def cholesky(self, upper: bool = False) -> Tensor:
        """Return the triangular factor of positive definite matrices: `tensor.linalg.cholesky`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[4.0]]).cholesky().tolist()
        [[2.0]]
        """
        return factorizations.cholesky(as_tensor(self), upper=upper)

    @composite
    def qr(self, some: bool = True) -> QRResult:
        """Return Q and R: `tensor.linalg.qr`; with ``some=False`` Q is square.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3, 2)).qr().Q.shape
        (3, 2)
        """
        return factorizations.qr(as_tensor(self), mode="reduced" if some else "complete")

    @composite
    def svd(self, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Return U, S and V with ``x = U @ diag(S) @ V.mH``. `tensor.linalg.svd` returns V.mH.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((3, 2)).svd()]
        [(3, 2), (2,), (2, 2)]
        """
        x = as_tensor(self)
        if not compute_uv:
            rows, columns = x.shape[-2:]
            batch = x.shape[:-2]
            none = x.new_zeros((*batch, rows, rows)), x.new_zeros((*batch, columns, columns))
            return none[0], factorizations.svdvals(x), none[1]
        u, s, vh = factorizations.svd(x, full_matrices=not some)
        return u, s, vh.mH

    @composite
    def logdet(self) -> Tensor:
        """Return the logarithm of the determinants; nan for negative ones.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1.0]]).logdet().item()
        0.0
        """
        sign, logarithm = solving.slogdet(as_tensor(self))
        return elementwise.where(elementwise.less(sign, 0), math.nan, logarithm)

    @composite
    def pinverse(self, rcond: float = 1e-15) -> Tensor:
        """Return the pseudo-inverse: `tensor.linalg.pinv`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[2.0]]).pinverse().tolist()
        [[0.5]]
        """
        return solving.pinv(as_tensor(self), rtol=rcond)

    @composite
    def inverse(self) -> Tensor:
        """Return the inverse: `tensor.linalg.inv`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[2.0]]).inverse().tolist()
        [[0.5]]
        """
        return solving.inv(as_tensor(self))

    @composite
    def kron(self, other: Tensor) -> Tensor:
        """Return the Kronecker product: blocks of `other`, each times one element of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2]]).kron(tensor.tensor([[1, 1]])).tolist()
        [[1, 1, 2, 2]]
        """
        a, b = as_tensor(self), as_tensor(other)
        rank = max(a.ndim, b.ndim)
        first = (1,) * (rank - a.ndim) + a.shape
        second = (1,) * (rank - b.ndim) + b.shape
        spread = a.reshape([n for size in first for n in (size, 1)])
        inner = b.reshape([n for size in second for n in (1, size)])
        return (spread * inner).reshape([n * m for n, m in zip(first, second, strict=True)])

    @composite
    def matrix_exp(self) -> Tensor:
        """Return the exponentials of square matrices, by scaling and squaring: exp(x / 2**n) ** 2**n.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).matrix_exp().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        x = as_tensor(self)
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise InvalidArgumentError(f"matrix_exp takes square matrices, not shape {x.shape}")
        if not is_inexact(x.dtype):
            raise TypeError(f"matrix_exp takes floating tensors, not {x.dtype}: convert it with x.float()")
        given = x.dtype
        x = x.to(np.float64 if is_floating(given) else np.complex128)  # squaring increases the error
        norms = np.abs(x._live_array()).sum(-2)
        norm = float(norms.max()) if norms.size else 0.0
        times = max(0, math.ceil(math.log2(norm)) + 1) if 0 < norm < math.inf else 0
        part = elementwise.multiply(x, 0.5**times)
        one = x.new_ones((x.shape[-1],)).diag()
        out = one + part / _TERMS
        for i in range(_TERMS - 1, 0, -1):
            out = one + matmul(part, out) / i
        for _ in range(times):
            out = matmul(out, out)
        return out.to(given)

    @composite
    def diagflat(self, offset: int = 0) -> Tensor:
        """Return a matrix with the elements of the flattened tensor on a diagonal.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1], [2]]).diagflat().tolist()
        [[1, 0], [0, 2]]
        """
        return as_tensor(self).reshape(-1).diag_embed(offset)

    @composite
    def sum_to_size(self, *sizes: int | Sequence[int], size: int | Sequence[int] | None = None) -> Tensor:
        """Return the tensor summed to the shape `size`, which broadcasts to the tensor's shape.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).sum_to_size(1, 3).tolist()
        [[2.0, 2.0, 2.0]]
        """
        x = as_tensor(self)
        wanted = sizes_of("sum_to_size", named_sizes("sum_to_size", sizes, size))
        ahead = x.ndim - len(wanted)
        fits = ahead >= 0 and all(n in (1, m) for n, m in zip(wanted, x.shape[max(ahead, 0) :], strict=True))
        if not fits:
            raise InvalidArgumentError(
                f"sum_to_size: {wanted} must broadcast to shape {x.shape}, but does not"
            )
        over = [
            *range(ahead),
            *[i + ahead for i, n in enumerate(wanted) if n == 1 and x.shape[i + ahead] != 1],
        ]
        if x.shape == wanted and wanted:
            return x
        out = x.sum(tuple(over), True) if over or x.dtype.kind == "b" else x
        return out.reshape(wanted) if ahead else out

    @composite
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """Write the result of ``addbmm`` to the tensor, which keeps its shape and dtype."""
        become("addbmm", as_tensor(self), as_tensor(self).addbmm(batch1, batch2, beta=beta, alpha=alpha))
        return self

    # --- Factors of LAPACK, and solvers ---------------------------------------------------------------------

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
        found = factoring.factor_lu(as_tensor(self), pivot)
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
        return factoring.solve_lu(LU_data, LU_pivots, as_tensor(self))

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
        return factoring.solve_triangular(
            lower.mH, factoring.solve_triangular(lower, as_tensor(self), upper=False), upper=True
        )

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
        found = factoring.solve_triangular(
            read, as_tensor(self), upper=upper != transpose, unitriangular=unitriangular
        )
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

    # --- Fourier transforms of windows ----------------------------------------------------------------------

    @composite
    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
    ) -> Tensor:
        """Return the spectra of overlapping frames of a signal, shape (..., frequencies, frames).

        Parameters
        ----------
        n_fft
            The number of samples of a frame.
        hop_length
            The number of samples between the starts of two frames; a quarter of `n_fft` by default.
        win_length, window
            The length of the window, and the window to multiply each frame by: by default `n_fft` ones.
        center, pad_mode
            Whether the signal is padded so that frame t is centred at sample t * hop_length, and how:
            ``"reflect"``, ``"replicate"``, ``"circular"`` or ``"constant"``.
        normalized
            Whether the result is divided by sqrt(n_fft).
        onesided
            Whether frequencies below 0 are left out; by default if signal and window are real.
        return_complex
            Whether the result is complex, or has real and imaginary parts in a last dimension of size 2.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((8,)).stft(4, return_complex=True).shape
        (3, 9)
        """
        x = as_tensor(self)
        if x.ndim not in (1, 2):
            raise InvalidArgumentError(f"stft takes a signal or a batch of signals, not shape {x.shape}")
        hop = _hop("stft", hop_length, n_fft)
        factors = _window("stft", window, n_fft, n_fft if win_length is None else win_length, x)
        is_complex = x.is_complex() or factors.is_complex()
        if return_complex is None:
            if not is_complex:
                raise InvalidArgumentError(
                    "stft: write return_complex=True for a complex result, or False for pairs of real numbers"
                )
            return_complex = True
        if center:
            x = _padded(x, n_fft // 2, pad_mode)
        if not 0 < n_fft <= x.shape[-1]:
            raise InvalidArgumentError(
                f"stft: n_fft must be from 1 to the length of the signal ({x.shape[-1]}), not {n_fft}"
            )
        frames = x.unfold(-1, n_fft, hop) * factors
        one_sided = not is_complex if onesided is None else onesided
        if one_sided and is_complex:
            raise InvalidArgumentError(
                "stft: onesided=True takes a real signal and a real window: write onesided=False"
            )
        norm: _Norm = "ortho" if normalized else "backward"
        spectra = (fourier.rfft if one_sided else fourier.fft)(frames, norm=norm).mT
        return spectra if return_complex else complex_views.view_as_real(spectra)

    @composite
    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Tensor:
        """Return the signal whose spectra are in the tensor: the inverse of ``stft``, by overlapping sums.

        `length` is the length of the signal, and `return_complex` says whether the signal is complex. The
        other arguments are those of ``stft``.

        Raises
        ------
        InvalidArgumentError
            If the squares of the windows add up to 0 somewhere.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, 2.0, 3.0, 4.0])
        >>> tensor.allclose(x.stft(4, return_complex=True).istft(4), x)
        True
        """
        x = as_tensor(self)
        if not x.is_complex():
            if x.shape[-1:] != (2,):
                raise InvalidArgumentError(
                    "istft takes a complex tensor, or pairs of real numbers in a last dimension of size 2, "
                    f"not {x.dtype} of shape {x.shape}"
                )
            x = complex_views.view_as_complex(x.contiguous())
        if x.ndim not in (2, 3):
            raise InvalidArgumentError(
                f"istft takes spectra of shape (frequencies, frames), or a batch of them, not {x.shape}"
            )
        hop = _hop("istft", hop_length, n_fft)
        factors = _window("istft", window, n_fft, n_fft if win_length is None else win_length, x)
        one_sided = x.shape[-2] != n_fft if onesided is None else onesided
        if one_sided and return_complex:
            raise InvalidArgumentError(
                "istft: a complex signal has spectra of both sides: write onesided=False"
            )
        wanted = n_fft // 2 + 1 if one_sided else n_fft
        if x.shape[-2] != wanted:
            raise InvalidArgumentError(
                f"istft: for n_fft={n_fft} the spectra must have {wanted} frequencies, not {x.shape[-2]}"
            )
        norm: _Norm = "ortho" if normalized else "backward"
        if one_sided:
            frames = fourier.irfft(x.mT, n=n_fft, norm=norm)
        else:
            frames = fourier.ifft(x.mT, norm=norm)
            frames = frames if return_complex else frames.real
        count = x.shape[-1]
        total = n_fft + hop * (count - 1)
        places = wrap((np.arange(count)[:, None] * hop + np.arange(n_fft)).reshape(-1))
        start = n_fft // 2 if center else 0
        end = total - start if center and length is None else total if length is None else start + length
        signal = _overlapped(frames * factors, places, total)[..., start:end]
        squares = factors.square().expand((count, n_fft))
        weights = _overlapped(squares, places, total)[start:end]
        if weights.shape[-1] and weights.abs().min() < 1e-11:
            raise InvalidArgumentError(
                "istft: the squares of the windows add up to 0 somewhere: pass a window without zeros at its "
                "ends, a smaller hop_length, or center=True"
            )
        signal = signal / weights
        missing = 0 if length is None else length - signal.shape[-1]
        if missing > 0:
            rest = wrap(np.zeros((*signal.shape[:-1], missing), signal.dtype))
            signal = concat([signal, rest], axis=-1)
        return signal


def _of_dims(name: str, x1: TensorCore, x2: TensorCore, first: int, second: int) -> Tensor:
    if not isinstance(x2, TensorCore):
        raise TypeError(f"{name} takes a tensor, not {type(x2).__name__}: write tensor.tensor(data)")
    a, b = as_tensor(x1), as_tensor(x2)
    require_dims(name, a, b, first, second)
    return matmul(a, b)


def _reflected(vectors: Tensor, tau: Tensor, other: Tensor, is_forward: bool) -> Tensor:
    """Apply the reflectors to `other`, the last one first, or with `is_forward` the first one first."""
    count = tau.shape[-1]
    ones = wrap(np.eye(vectors.shape[-2], count, dtype=vectors.dtype))
    columns = tril(vectors, k=-1)[..., :count] + ones
    for i in range(count) if is_forward else reversed(range(count)):
        v, t = columns[..., i : i + 1], tau[..., i, None, None]
        other = other - t * matmul(v, matmul(v.mH, other))
    return other


def _window(name: str, window: Tensor | None, n_fft: int, win_length: int, like: Tensor) -> Tensor:
    """Return the window (by default ones), padded with zeros on both sides to the length of a frame."""
    if not 0 < win_length <= n_fft:
        raise InvalidArgumentError(f"{name}: win_length must be from 1 to n_fft ({n_fft}), not {win_length}")
    real = np.float64 if like.dtype.itemsize > (8 if like.is_complex() else 4) else np.float32
    chosen = wrap(np.ones(win_length, real)) if window is None else window
    if chosen.shape != (win_length,):
        raise InvalidArgumentError(
            f"{name}: window must have win_length elements, shape ({win_length},), not {chosen.shape}"
        )
    before = (n_fft - win_length) // 2
    after = n_fft - win_length - before
    ends = [wrap(np.zeros(n, chosen.dtype)) for n in (before, after)]
    return concat([ends[0], chosen, ends[1]]) if before or after else chosen


def _hop(name: str, hop_length: int | None, n_fft: int) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop < 1:
        origin = " (the default, n_fft // 4)" if hop_length is None else ""
        raise InvalidArgumentError(f"{name}: hop_length must be at least 1, not {hop}{origin}")
    return hop


def _padded(x: Tensor, count: int, mode: str) -> Tensor:
    how: Any = _PADDING.get(mode)
    if how is None:
        raise InvalidArgumentError(f"stft: pad_mode must be one of {tuple(_PADDING)}, not {shown(mode)}")
    length = x.shape[-1]
    if how == "constant":
        zeros = wrap(np.zeros((*x.shape[:-1], count), x.dtype))
        return concat([zeros, x, zeros], axis=-1)
    if how == "reflect" and count >= length:
        raise InvalidArgumentError(
            f"stft: {count} samples on each side can't be reflected from a signal of {length}: pass a longer "
            "one, pad_mode='constant', or center=False"
        )
    return x[..., np.pad(np.arange(length), count, mode=how)]


def _overlapped(frames: Tensor, places: Tensor, total: int) -> Tensor:
    """Return the signal that is the sum of overlapping frames. `places` has the index of each element."""
    outer = frames.shape[:-2]
    flat = frames.reshape((*outer, math.prod(frames.shape[-2:])))
    return wrap(np.zeros((*outer, total), frames.dtype)).index_add(-1, places, flat)
