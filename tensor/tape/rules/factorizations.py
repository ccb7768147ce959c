"""Derivatives of factorizations of matrices, and of their eigenvalues and singular values.

Each output of a factorization is a separate op, with the gradient of that output. Backward sums the gradients
of all outputs. The factors are parameters of these ops, and have derivatives too (`derived`).

Sources:

- cholesky: I. Murray, "Differentiation of the Cholesky decomposition" (2016);
- eigh: M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
  differentiation" (2008);
- eig: C. Boeddeker et al., "On the computation of complex-valued gradients with application to statistically
  optimum beamforming" (2017);
- svd: J. Townsend, "Differentiating the singular value decomposition" (2016), and for complex matrices Z.-Q.
  Wan and S.-X. Zhang, "Automatic differentiation for complex valued SVD" (2019);
- lu: F. de Hoog, R. Anderssen and M. Lukas, "Differentiation of matrix functionals using triangular
  factorization" (2011);
- qr: S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2018).
"""

from __future__ import annotations

from typing import Any

from tensor.tape.rules.table import conj, define


def adjoint(xp: Any, x: Any) -> Any:
    """Return the conjugate transpose of matrices."""
    return conj(xp, xp.matrix_transpose(x))


def _identity(xp: Any, x: Any) -> Any:
    """Return the identity matrix with as many columns as `x`, real, in the precision of `x`."""
    return xp.eye(x.shape[-1], dtype=xp.real(x).dtype)


def _divided_by(xp: Any, x: Any, divisor: Any) -> Any:
    """Return x @ inv(divisor)."""
    return adjoint(xp, xp.linalg.solve(adjoint(xp, divisor), adjoint(xp, x)))


def _differences(xp: Any, values: Any) -> Any:
    """Return ``values[j] - values[i]`` at ``[i, j]``, and 1 on the diagonal."""
    apart = values[..., None, :] - values[..., :, None]
    return apart + xp.eye(values.shape[-1], dtype=xp.real(values).dtype)


def _without_diagonal(xp: Any, x: Any) -> Any:
    return x * (1 - _identity(xp, x))


# Hermitian matrices


def _cholesky(xp: Any, g: Any, out: Any) -> Any:
    product = xp.matmul(adjoint(xp, out), g)
    halved = xp.tril(product) * (1 - 0.5 * _identity(xp, out))
    inner = _divided_by(xp, xp.linalg.solve(adjoint(xp, out), halved), out)
    return 0.5 * (inner + adjoint(xp, inner))


def _eigh_values(xp: Any, g: Any, vectors: Any) -> Any:
    return xp.matmul(vectors * g[..., None, :], adjoint(xp, vectors))


def _eigh_vectors(xp: Any, g: Any, values: Any, vectors: Any) -> Any:
    turned = _without_diagonal(xp, xp.matmul(adjoint(xp, vectors), g)) / _differences(xp, values)
    found = xp.matmul(xp.matmul(vectors, turned), adjoint(xp, vectors))
    # The gradient is Hermitian, as the matrices are, although the op only reads one triangle.
    return 0.5 * (found + adjoint(xp, found))


# Any square matrices


def _eig_values(xp: Any, g: Any, vectors: Any) -> Any:
    return xp.linalg.solve(adjoint(xp, vectors), g[..., :, None] * adjoint(xp, vectors))


def _eig_vectors(xp: Any, g: Any, values: Any, vectors: Any) -> Any:
    dual = adjoint(xp, vectors)
    product = xp.matmul(dual, g)
    # Remove the part along each vector, because eigenvectors have length 1.
    along = xp.sum(xp.real(product) * _identity(xp, product), axis=-2)
    turned = product - xp.matmul(dual, vectors * along[..., None, :])
    turned = _without_diagonal(xp, turned) / conj(xp, _differences(xp, values))
    return xp.linalg.solve(dual, xp.matmul(turned, dual))


# Singular values


def _svd_s(xp: Any, g: Any, u: Any, vh: Any) -> Any:
    k = g.shape[-1]
    return xp.matmul(u[..., :, :k] * g[..., None, :], vh[..., :k, :])


def _turned(xp: Any, product: Any, s: Any) -> Any:
    squares = s * s
    half = _without_diagonal(xp, product) / _differences(xp, squares)
    return half + adjoint(xp, half)


def _svd_u(xp: Any, g: Any, u: Any, s: Any, vh: Any) -> Any:
    k = s.shape[-1]
    u, vh, g = u[..., :, :k], vh[..., :k, :], g[..., :, :k]
    product = xp.matmul(adjoint(xp, u), g)
    inner = _turned(xp, product, s) * s[..., None, :]
    if product.dtype.kind == "c":
        # Each pair of singular vectors has an arbitrary phase. Assign it to `u`.
        diagonal = product * _identity(xp, product)
        inner = inner + 0.5 * (diagonal - conj(xp, diagonal)) / s[..., None, :]
    found = xp.matmul(u, inner)
    if u.shape[-2] > k:
        found = found + (g - xp.matmul(u, product)) / s[..., None, :]
    return xp.matmul(found, vh)


def _svd_vh(xp: Any, g: Any, u: Any, s: Any, vh: Any) -> Any:
    k = s.shape[-1]
    u, vh, g = u[..., :, :k], vh[..., :k, :], g[..., :k, :]
    product = xp.matmul(vh, adjoint(xp, g))
    found = xp.matmul(s[..., :, None] * _turned(xp, product, s), vh)
    if vh.shape[-1] > k:
        found = found + (g - xp.matmul(adjoint(xp, product), vh)) / s[..., :, None]
    return xp.matmul(u, found)


# Orthogonal and triangular factors, of matrices with at least as many rows as columns


def _hermitian_of_upper(xp: Any, x: Any) -> Any:
    upper = xp.triu(x) * (1 - 0.5 * _identity(xp, x))
    return upper + adjoint(xp, upper)


def _qr_q(xp: Any, g: Any, q: Any, r: Any) -> Any:
    inner = _hermitian_of_upper(xp, xp.matmul(adjoint(xp, q), g))
    return _divided_by(xp, g - xp.matmul(q, inner), adjoint(xp, r))


def _qr_r(xp: Any, g: Any, q: Any, r: Any) -> Any:
    inner = _hermitian_of_upper(xp, xp.matmul(g, adjoint(xp, r)))
    return _divided_by(xp, xp.matmul(q, inner), adjoint(xp, r))


def _define_all(name: str, functions: dict[str, Any]) -> None:
    derived = {output: {"x": function} for output, function in functions.items()}
    for output, function in functions.items():
        define(f"{name}_{output}", derived=derived, x=function)


def _lu(xp: Any, inner: Any, lower: Any, upper: Any) -> Any:
    return _divided_by(xp, xp.linalg.solve(adjoint(xp, lower), inner), adjoint(xp, upper))


def _lu_lower(xp: Any, g: Any, lower: Any, upper: Any) -> Any:
    return _lu(xp, xp.tril(xp.matmul(adjoint(xp, lower), g), k=-1), lower, upper)


def _lu_upper(xp: Any, g: Any, lower: Any, upper: Any) -> Any:
    return _lu(xp, xp.triu(xp.matmul(g, adjoint(xp, upper))), lower, upper)


define("cholesky", x=_cholesky)
_define_all("eigh", {"values": _eigh_values, "vectors": _eigh_vectors})
_define_all("eig", {"values": _eig_values, "vectors": _eig_vectors})
_define_all("svd", {"u": _svd_u, "s": _svd_s, "vh": _svd_vh})
_define_all("lu", {"lower": _lu_lower, "upper": _lu_upper})
_define_all("qr", {"q": _qr_q, "r": _qr_r})
