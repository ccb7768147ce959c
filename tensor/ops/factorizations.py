"""Factorizations of matrices and of batches of matrices: Cholesky, QR, eigenvalues, singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import wrap
from tensor.kernels.lapack import as_complex, of_any_dtype
from tensor.ops.elementwise import conj
from tensor.ops.joining import concat
from tensor.ops.lapack import matrices_of, record_outputs, run_lapack
from tensor.ops.linalg import matmul
from tensor.ops.results import EighResult, EigResult, QRResult, SVDResult
from tensor.ops.shapes import matrix_transpose
from tensor.tape.modes import is_recording
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


_cholesky = of_any_dtype(np.linalg.cholesky)
_eigh = of_any_dtype(lambda a, uplo: tuple(np.linalg.eigh(a, uplo)))
_eigvalsh = of_any_dtype(np.linalg.eigvalsh)
_qr = of_any_dtype(lambda a, mode: tuple(np.linalg.qr(a, mode)))
_svd = of_any_dtype(lambda a, full_matrices: tuple(np.linalg.svd(a, full_matrices)))
_svdvals = of_any_dtype(np.linalg.svdvals)
# NumPy returns real eigenvalues if all are real.
_eig = of_any_dtype(lambda a: tuple(map(as_complex, np.linalg.eig(a))))
_eigvals = of_any_dtype(lambda a: as_complex(np.linalg.eigvals(a)))


def _wants_gradient(x: Tensor) -> bool:
    return x._node is not None and is_recording()


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Return the lower triangular L of positive definite matrices, shape (..., n, n), with L @ L^H = x.

    With `upper`, return U = L^H. Only the lower triangle of `x` is read, or the upper one with `upper`. `x`
    is assumed to be symmetric, or Hermitian if it is complex.

    The gradient is L^-H phi(L^H g) L^-1, where phi is the lower triangle with half of the diagonal (Murray
    2016). It is Hermitian, and can be differentiated again.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.cholesky(tensor.tensor([[4.0, 2.0], [2.0, 2.0]])).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    y = matrices_of("cholesky", x, square=True)
    array = y._live_array()
    out = np.asarray(run_lapack("cholesky", _cholesky, array.mT.conj() if upper else array))
    lower = wrap_recorded(out, record(RULES["cholesky"], (y,), out, {}))
    return conj(matrix_transpose(lower)) if upper else lower


def eigh(x: Tensor, /, *, upper: bool = False) -> EighResult:
    """Return the eigenvalues, ascending, and eigenvectors of Hermitian matrices, shape (..., n, n).

    Only the lower triangle is read, or the upper one with `upper`. With the gradients g of the eigenvalues
    and h of the eigenvectors, the gradient is V (diag(g) + F * V^H h) V^H, where F_ij = 1 / (l_j - l_i) and
    F_ii = 0 (Giles 2008). It can be differentiated again. For eigenvectors of equal eigenvalues it is
    infinite or nan. An eigenvector is unique up to its sign, a complex one up to a factor of modulus 1. A
    function that depends on this choice has no gradient.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.eigh(tensor.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.round(decimals=5).tolist()
    [1.0, 3.0]
    """
    y = matrices_of("eigh", x, square=True)
    values, vectors = run_lapack("eigh", _eigh, y._live_array(), uplo="U" if upper else "L")
    return EighResult(*record_outputs("eigh", y, {"values": values, "vectors": vectors}))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, shape (..., n, n), in ascending order: (..., n).

    Only the lower triangle is read. The gradient is that of ``eigh``. For equal eigenvalues only the first
    derivative exists.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.eigvalsh(tensor.tensor([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    y = matrices_of("eigvalsh", x, square=True)
    if _wants_gradient(y):
        return eigh(y).eigenvalues
    return wrap(np.asarray(run_lapack("eigvalsh", _eigvalsh, y._live_array())))


def eig(x: Tensor, /) -> EigResult:
    """Return the eigenvalues and eigenvectors of square matrices, shape (..., n, n). Both are complex.

    The gradient is V^-H (diag(g) + (V^H h - V^H V re(diag(V^H h))) * conj(F)) V^H with F as in ``eigh``
    (Boeddeker et al. 2017). It can be differentiated again. It does not exist for equal eigenvalues, or for a
    function that depends on the factor of modulus 1 of an eigenvector.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.eig(tensor.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    y = matrices_of("eig", x, square=True)
    values, vectors = run_lapack("eig", _eig, y._live_array())
    return EigResult(*record_outputs("eig", y, {"values": values, "vectors": vectors}))


def eigvals(x: Tensor, /) -> Tensor:
    """Return the complex eigenvalues of square matrices, shape (..., n, n), in no particular order: (..., n).

    The gradient is that of ``eig``, which does not exist for equal eigenvalues.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.eigvals(tensor.tensor([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [(2+0j), (1+0j)]
    """
    y = matrices_of("eigvals", x, square=True)
    if _wants_gradient(y):
        return eig(y).eigenvalues
    return wrap(np.asarray(run_lapack("eigvals", _eigvals, y._live_array())))


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Return Q with orthonormal columns and upper triangular R, with Q @ R = x of shape (..., m, n).

    Parameters
    ----------
    mode
        ``"reduced"``: Q is (..., m, k) and R (..., k, n) with k = min(m, n). ``"complete"``: Q is square.

    With m >= n and the gradients g of Q and h of R, the gradient is [g - Q s(triu(Q^H g - h R^H))] R^-H,
    where s(X) is X + X^H with half of the diagonal (Walter and Lehmann 2018). It can be differentiated again,
    and needs a matrix of full rank. For m < n, the first m columns are factored, and R also has Q^H times the
    other columns.

    Raises
    ------
    ValueError
        If `x` requires a gradient, and a complete Q has more rows than `x` has columns: the last columns of Q
        are not unique.

    Examples
    --------
    >>> import tensor
    >>> q, r = tensor.linalg.qr(tensor.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> tensor.allclose(q @ r, tensor.tensor([[0.0, 2.0], [1.0, 0.0]]))
    True
    """
    y = matrices_of("qr", x)
    if mode not in ("reduced", "complete"):
        raise InvalidArgumentError(f"qr: mode must be 'reduced' or 'complete', not {shown(mode)}")
    rows, columns = y.shape[-2:]
    if _wants_gradient(y):
        if rows < columns:
            q, r = qr(y[..., :rows])
            return QRResult(q, concat([r, matmul(_adjoint(q), y[..., rows:])], axis=-1))
        if mode == "complete" and rows > columns:
            raise InvalidArgumentError(
                f"qr: the columns of the complete Q from index {columns} on are not unique, so it has no "
                "derivative. Write mode='reduced', or x.detach()"
            )
    q, r = run_lapack("qr", _qr, y._live_array(), mode=mode)
    return QRResult(*record_outputs("qr", y, {"q": q, "r": r}))


def _adjoint(x: Tensor) -> Tensor:
    return conj(matrix_transpose(x))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Return U, S and Vh with x = U @ diag(S) @ Vh, for matrices of shape (..., m, n).

    S is (..., k) with k = min(m, n), in descending order; U is (..., m, m) and Vh (..., n, n), or (..., m, k)
    and (..., k, n) without `full_matrices`.

    The gradient is that of Townsend (2016), for complex matrices that of Wan and Zhang (2019). It can be
    differentiated again. For the first k vectors it is infinite or nan if singular values are equal, or if
    one is 0 and the vectors have more than k elements. For later vectors it is 0. A vector of U and its
    vector of Vh are unique up to a common sign, complex ones up to a factor of modulus 1. A function that
    depends on this choice has no gradient.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.svd(tensor.tensor([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    y = matrices_of("svd", x)
    u, s, vh = run_lapack("svd", _svd, y._live_array(), full_matrices=full_matrices)
    return SVDResult(*record_outputs("svd", y, {"u": u, "s": s, "vh": vh}))


def svdvals(x: Tensor, /) -> Tensor:
    """Return the singular values of matrices, shape (..., m, n), in descending order: (..., min(m, n)).

    The gradient is that of ``svd``. For equal singular values only the first derivative exists.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.svdvals(tensor.tensor([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """
    y = matrices_of("svdvals", x)
    if _wants_gradient(y):
        return svd(y, full_matrices=False).S
    return wrap(np.asarray(run_lapack("svdvals", _svdvals, y._live_array())))
