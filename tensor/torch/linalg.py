"""``torch.linalg``: `tensor.linalg` in PyTorch's call forms."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np

import tensor as tn
from tensor import InvalidArgumentError, Tensor
from tensor import linalg as _ours
from tensor._dtypes import DtypeLike, as_dtype, is_inexact
from tensor.linalg import LinAlgError
from tensor.torch.calling import place, with_out
from tensor.torch.functions import matrix_exp
from tensor.torch.functions import orgqr as householder_product
from tensor.torch.lu_factors import lu, lu_factor, lu_factor_ex, lu_solve
from tensor.torch.solving import cholesky_ex, inv_ex, solve, solve_ex, solve_triangular

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


class LstsqResult(NamedTuple):
    """Result of ``lstsq``: solutions, sums of squared residuals, ranks and singular values."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@with_out
def eig(A: Tensor) -> _ours.EigResult:
    """Return the eigenvalues and the eigenvectors of square matrices, which are complex.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> values, vectors = torch.linalg.eig(torch.tensor([[2.0]]))
    >>> values.tolist(), vectors.tolist()
    ([(2+0j)], [[(1+0j)]])
    """
    return _ours.eig(A)


@with_out
def eigvals(A: Tensor) -> Tensor:
    """Return the eigenvalues of square matrices, which are complex.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.eigvals(torch.tensor([[2.0]])).tolist()
    [(2+0j)]
    """
    return _ours.eigvals(A)


@with_out
def det(A: Tensor) -> Tensor:
    """Return the determinants of square matrices.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.det(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).item()
    6.0
    """
    return _ours.det(A)


@with_out
def slogdet(A: Tensor) -> _ours.SlogdetResult:
    """Return the signs of the determinants of square matrices, and the logarithms of their absolute values.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> sign, logabsdet = torch.linalg.slogdet(torch.tensor([[-1.0]]))
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """
    return _ours.slogdet(A)


@with_out
def inv(A: Tensor) -> Tensor:
    """Return the inverses of square matrices.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.inv(torch.tensor([[2.0]])).item()
    0.5
    """
    return _ours.inv(A)


@with_out
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Return the Cholesky factor: the lower triangular L with ``A = L @ L.mH``, or the upper one.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0]])).tolist()
    [[2.0]]
    """
    return _ours.cholesky(A, upper=upper)


@with_out
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Return the `n`-th power of square matrices.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.matrix_power(torch.tensor([[2.0]]), 3).tolist()
    [[8.0]]
    """
    return _ours.matrix_power(A, n)


@with_out
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Return the singular values of matrices in descending order. `driver` has no effect.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.svdvals(torch.tensor([[2.0]])).tolist()
    [2.0]
    """
    del driver
    return _ours.svdvals(A)


def _singular(A: Tensor, hermitian: bool) -> Tensor:
    return _ours.eigvalsh(A).abs() if hermitian else _ours.svdvals(A)


def _cut(A: Tensor, values: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Return the tolerance up to which singular values count as 0."""
    if rtol is None:
        some = (atol > 0) if isinstance(atol, tn.Tensor) else bool(atol)
        default = tn.finfo(values.dtype).eps * max(A.shape[-2:])
        rtol = tn.where(some, 0.0, default) if isinstance(some, tn.Tensor) else 0.0 if some else default
    largest = values.amax(-1) if values.shape[-1] else values.sum(-1)
    return tn.maximum(largest * rtol, largest * 0 + (0.0 if atol is None else atol))


@with_out
def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """Return the rank: the number of singular values above ``max(atol, rtol * the largest)``.

    Parameters
    ----------
    tol
        PyTorch's old name of `atol`.
    hermitian
        Whether the matrices are Hermitian, so that eigenvalues are used instead of singular values.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.matrix_rank(torch.tensor([[1.0, 0.0], [0.0, 1e-3]]), atol=0.1, rtol=0.0).item()
    1
    """
    if A.ndim < 2:
        raise InvalidArgumentError(f"matrix_rank takes matrices, shape (..., m, n), not shape {A.shape}")
    values = _singular(A, hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    return (values > _cut(A, values, atol, rtol).unsqueeze(-1)).sum(-1)


@with_out
def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """Return the pseudo-inverses of matrices.

    Singular values up to ``max(atol, rtol * the largest)`` count as 0.

    Parameters
    ----------
    rcond
        PyTorch's old name of `rtol`.
    hermitian
        Whether the matrices are Hermitian, so that eigenvalues are used instead of singular values.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    share = rcond if rtol is None else rtol
    if hermitian and A.numel():
        values, vectors = _ours.eigh(A)
        kept = values.abs() > _cut(A, values.abs(), atol, share).unsqueeze(-1)
        inverse = tn.where(kept, 1 / tn.where(kept, values, 1.0), 0.0)
        return (vectors * inverse.unsqueeze(-2)) @ vectors.mH
    if atol is None or A.numel() == 0:
        return _ours.pinv(A, rtol=share)
    with tn.no_grad():
        values = _singular(A, hermitian)
        largest = values.amax(-1)
        relative = _cut(A, values, atol, share) / tn.where(largest > 0, largest, 1.0)
    return _ours.pinv(A, rtol=relative)


@with_out
def cond(A: Tensor, p: float | Literal["fro", "nuc"] | None = None) -> Tensor:
    """Return the condition numbers of matrices for the norm `p`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.cond(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).item()
    2.0
    """
    if p in (None, 2, -2):
        values = _ours.svdvals(A)
        if values.shape[-1] == 0:
            return values.sum(-1)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    if A.numel() == 0:
        return A.abs().sum((-2, -1))
    inverse, info = inv_ex(A)
    return tn.where(info > 0, inf, matrix_norm(A, p) * matrix_norm(inverse, p))


@with_out
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """Return the least squares solution X of ``A @ X = B``, by the pseudo-inverse.

    Parameters
    ----------
    rcond
        Singular values up to this fraction of the largest count as 0. ``"gels"`` ignores it, and ``"gelsd"``
        reads the dtype's eps for 1 and more, and for 0 and less.
    driver
        ``"gels"``, ``"gelsy"``, ``"gelsd"`` or ``"gelss"``: decides which of residuals, ranks and singular
        values are returned.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0], [3.0]])).solution.round(
    ...     decimals=4
    ... ).tolist()
    [[2.0]]
    """
    if A.ndim < 2:
        raise InvalidArgumentError(f"lstsq takes matrices, shape (..., m, n), not shape {A.shape}")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise InvalidArgumentError(
            f"lstsq: driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', not {driver!r}"
        )
    is_vector = A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    columns = B.unsqueeze(-1) if is_vector else B
    kind = driver or "gelsy"
    if kind == "gels":  # which takes matrices of full rank alone
        rcond = None
    if kind == "gelsd" and rcond is not None and not 0 < rcond < 1:  # LAPACK's routine reads eps then
        rcond = tn.finfo(A.dtype).eps
    solution = _ours.pinv(A, rtol=rcond) @ columns
    with tn.no_grad():
        rank = tn.zeros((0,), dtype="int64") if kind == "gels" else _ours.matrix_rank(A, rtol=rcond)
        shown = _ours.svdvals(A) if kind in ("gelsd", "gelss") else solution.new_empty((0,))
        rows, size = A.shape[-2:]
        has_rest = rows > size and kind != "gelsy" and bool((_ours.matrix_rank(A, rtol=rcond) == size).all())
    rest = (A @ solution - columns).abs().square().sum(-2) if has_rest else solution.new_empty((0,))
    return LstsqResult(solution.squeeze(-1) if is_vector else solution, rest, rank, shown)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Return the Vandermonde matrix: powers 0 to `N` - 1 of each element, in a new last dimension.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.vander(torch.tensor([2, 3]), 3).tolist()
    [[1, 2, 4], [1, 3, 9]]
    """
    size = x.shape[-1] if N is None and x.ndim else N
    if size is None or size < 1 or (N is not None and N < 2):
        raise InvalidArgumentError(f"vander: N must be at least 2, not {N}")
    y = x.to("int64") if x.dtype.kind in "b" else x
    y = y.reshape(1) if y.ndim == 0 else y
    repeated = y.unsqueeze(-1).expand((*y.shape, size - 1))
    return tn.concat([tn.ones((*y.shape, 1), dtype=y.dtype), repeated.cumprod(-1)], axis=-1)


@with_out
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of the map from x to ``tensordot(A, x, A.ndim - ind)``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    if ind < 1:
        raise InvalidArgumentError(f"tensorinv: ind must be at least 1, not {ind}")
    first, second = A.shape[:ind], A.shape[ind:]
    if np.prod(first) != np.prod(second):
        raise InvalidArgumentError(
            f"tensorinv: the first {ind} sizes of shape {A.shape} must have the same product as the others"
        )
    size = int(np.prod(first))
    return _ours.inv(A.reshape((size, size))).reshape((*second, *first))


@with_out
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Solve ``tensordot(A, X, X.ndim) = B``, after moving `dims` of `A` to the end.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.tensorsolve(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2)).shape
    (4,)
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    rest = A.shape[B.ndim :]
    if int(np.prod(rest)) != B.numel():
        raise InvalidArgumentError(f"tensorsolve: shapes {A.shape} and {B.shape} do not fit together")
    return _ours.solve(A.reshape((B.numel(), B.numel())), B.reshape(-1)).reshape(rest)


@with_out
def eigh(A: Tensor, UPLO: Literal["L", "U"] = "L") -> _ours.EighResult:
    """Return eigenvalues (ascending) and eigenvectors of Hermitian matrices; `UPLO` selects the triangle.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.eigh(torch.diag(torch.tensor([2.0, 1.0]))).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return _ours.eigh(A, upper=_is_upper(UPLO))


@with_out
def eigvalsh(A: Tensor, UPLO: Literal["L", "U"] = "L") -> Tensor:
    """Return the eigenvalues of Hermitian matrices in ascending order; `UPLO` selects the triangle.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.eigvalsh(torch.diag(torch.tensor([2.0, 1.0])), UPLO="U").tolist()
    [1.0, 2.0]
    """
    return _ours.eigvalsh(A.mH if _is_upper(UPLO) else A)


def _is_upper(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise InvalidArgumentError(f"UPLO must be 'L' or 'U', not {UPLO!r}")
    return UPLO.upper() == "U"


@with_out
def qr(A: Tensor, mode: Literal["reduced", "complete", "r"] = "reduced") -> _ours.QRResult:
    """Return the QR decomposition: Q with orthonormal columns, and upper triangular R.

    With mode ``"r"``, Q is empty and R has no gradient, as PyTorch has none there.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.qr(torch.ones(3, 2)).Q.shape
    (3, 2)
    """
    if mode == "r":
        factors = _ours.qr(A.detach())
        return factors._replace(Q=tn.empty((0,), dtype=A.dtype))
    return _ours.qr(A, mode=mode)


@with_out
def svd(A: Tensor, full_matrices: bool = True) -> _ours.SVDResult:
    """Return the singular value decomposition: U, S and Vh with ``A = U @ diag(S) @ Vh``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.svd(torch.ones(3, 2), full_matrices=False).U.shape
    (3, 2)
    """
    return _ours.svd(A, full_matrices=full_matrices)


@with_out
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross products of 3-element vectors along `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    if input.ndim != other.ndim:
        raise InvalidArgumentError(
            f"cross takes tensors with equally many dimensions, not shapes {input.shape} and {other.shape}"
        )
    return _ours.cross(input, other, axis=dim)


@with_out
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sum of conj(x) * y along `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.vecdot(torch.ones(3), torch.ones(3)).item()
    3.0
    """
    return _ours.vecdot(x, y, axis=dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a view of the diagonals with respect to two dimensions.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return A.diagonal(offset, dim1, dim2)


@with_out
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices. The first and the last may be vectors.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.multi_dot([torch.ones(1, 2), torch.ones(2, 3), torch.ones(3)]).tolist()
    [6.0]
    """
    if len(tensors) < 2:
        raise InvalidArgumentError(f"multi_dot takes at least two tensors, not {len(tensors)}")
    found, *others = tensors
    for x in others:
        found = found @ x
    return found


def _in_dtype(name: str, x: Tensor, dtype: DtypeLike | None) -> Tensor:
    """Return `x` in `dtype`, which must be able to hold its numbers."""
    if dtype is None:
        return x
    wanted = as_dtype(dtype)
    is_same_kind = x.is_complex() == (wanted.kind == "c")
    if not is_inexact(wanted) or not is_same_kind:
        raise InvalidArgumentError(
            f"{name}: dtype must be a {'complex' if x.is_complex() else 'floating'} dtype, not {wanted}"
        )
    if is_inexact(x.dtype) and tn.result_type(x.dtype, wanted) != wanted:
        raise InvalidArgumentError(f"{name}: dtype {wanted} is narrower than {x.dtype}: write x.to({wanted})")
    return x.to(wanted)


@with_out
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Tensor:
    """Return the `ord`-th root of the sum of abs(x)**ord over `dim`, computed in `dtype`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0])).item()
    5.0
    """
    x = _in_dtype("vector_norm", x, dtype)
    return _ours.vector_norm(x, ord=ord, axis=dim, keepdims=keepdim)


@with_out
def matrix_norm(
    A: Tensor,
    ord: float | Literal["fro", "nuc"] = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Tensor:
    """Return a norm of the matrices in the dimensions `dim`, computed in `dtype`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc").item()
    7.0
    """
    A = _in_dtype("matrix_norm", A, dtype)
    found = _ours.matrix_norm(A.movedim(dim, (-2, -1)), ord=ord, keepdims=keepdim)
    return found.movedim((-2, -1), dim) if keepdim else found


@with_out
def norm(
    A: Tensor,
    ord: float | Literal["fro", "nuc"] | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Tensor:
    """Return the vector norm along one `dim`, the matrix norm along two, or the 2-norm of all elements.

    It is computed in `dtype`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0])).item()
    5.0
    """
    if ord is not None and dim is None and A.ndim not in (1, 2):
        raise InvalidArgumentError(
            f"norm: ord={ord!r} without dim takes a vector or a matrix, not shape {A.shape}: write dim=, or "
            "x.flatten()"
        )
    A = _in_dtype("norm", A, dtype)
    places = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None or (len(places) == 1 and not isinstance(ord, str)):
        return vector_norm(A, 2 if ord is None else ord, dim, keepdim)
    first, second = places
    return matrix_norm(A, ord, (first, second), keepdim)


place(globals(), ("eig", "eigvals", "householder_product", "matrix_exp"))
