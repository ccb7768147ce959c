"""``torch.linalg``: `tensor.linalg` in PyTorch's call forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tensor import linalg as _ours
from tensor.linalg import LinAlgError, det, eig, eigvals, inv, matrix_power, slogdet, solve, svdvals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]

cholesky = _ours.cholesky
matrix_rank = _ours.matrix_rank
pinv = _ours.pinv


def eigh(A: Tensor, UPLO: Literal["L", "U"] = "L") -> _ours.EighResult:  # noqa: N803 - PyTorch's names
    """Return the eigenvalues, ascending, and eigenvectors of Hermitian matrices; `UPLO`: the triangle read.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.eigh(torch.diag(torch.tensor([2.0, 1.0]))).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return _ours.eigh(A if UPLO == "L" else A.mH)


def eigvalsh(A: Tensor, UPLO: Literal["L", "U"] = "L") -> Tensor:  # noqa: N803
    """Return the eigenvalues of Hermitian matrices in ascending order; `UPLO`: the triangle that is read.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.eigvalsh(torch.diag(torch.tensor([2.0, 1.0])), UPLO="U").tolist()
    [1.0, 2.0]
    """
    return _ours.eigvalsh(A if UPLO == "L" else A.mH)


def qr(A: Tensor, mode: Literal["reduced", "complete"] = "reduced") -> _ours.QRResult:  # noqa: N803
    """Return Q with orthonormal columns and upper triangular R, whose product is `A`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.qr(torch.ones(3, 2)).Q.shape
    (3, 2)
    """
    return _ours.qr(A, mode=mode)


def svd(A: Tensor, full_matrices: bool = True) -> _ours.SVDResult:  # noqa: N803
    """Return U, S and Vh with ``A = U @ diag(S) @ Vh``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.svd(torch.ones(3, 2), full_matrices=False).U.shape
    (3, 2)
    """
    return _ours.svd(A, full_matrices=full_matrices)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross products of vectors of 3 along `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    return _ours.cross(input, other, axis=dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sum of conj(x) * y along `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.vecdot(torch.ones(3), torch.ones(3)).item()
    3.0
    """
    return _ours.vecdot(x, y, axis=dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:  # noqa: N803
    """Return a view of the diagonals of two dimensions.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return A.diagonal(offset, dim1, dim2)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of matrices, from the first to the last; a vector may stand at either end.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.multi_dot([torch.ones(1, 2), torch.ones(2, 3), torch.ones(3)]).tolist()
    [6.0]
    """
    found, *others = tensors
    for x in others:
        found = found @ x
    return found


def vector_norm(
    x: Tensor, ord: float = 2, dim: int | tuple[int, ...] | None = None, keepdim: bool = False
) -> Tensor:
    """Return the `ord`-th root of the sum of abs(x)**ord over `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0])).item()
    5.0
    """
    return _ours.vector_norm(x, ord=ord, axis=dim, keepdims=keepdim)


def matrix_norm(
    A: Tensor,  # noqa: N803
    ord: float | Literal["fro", "nuc"] = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
) -> Tensor:
    """Return a norm of the matrices in the dimensions `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc").item()
    7.0
    """
    found = _ours.matrix_norm(A.movedim(dim, (-2, -1)), ord=ord, keepdims=keepdim)
    return found.movedim((-2, -1), dim) if keepdim else found


def norm(
    A: Tensor,  # noqa: N803
    ord: float | Literal["fro", "nuc"] | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Return a norm: of vectors along one `dim`, of matrices in two, of all elements without `ord` and `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0])).item()
    5.0
    """
    places = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None or (len(places) == 1 and not isinstance(ord, str)):
        return vector_norm(A, 2 if ord is None else ord, dim, keepdim)
    first, second = places
    return matrix_norm(A, ord, (first, second), keepdim)
