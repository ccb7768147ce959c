"""Derivatives of inverses, solutions and determinants.

Sources: M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008); for ``pinv`` G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and
nonlinear least squares problems whose variables separate" (1973).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensor.tape.rules.factorizations import adjoint
from tensor.tape.rules.table import conj, define


def _inv(xp: Any, g: Any, out: Any) -> Any:
    dual = adjoint(xp, out)
    return -xp.matmul(xp.matmul(dual, g), dual)


def _pinv(xp: Any, g: Any, x: Any, out: Any) -> Any:
    back, dual = adjoint(xp, g), adjoint(xp, out)
    left = xp.matmul(back, xp.matmul(out, dual))
    right = xp.matmul(xp.matmul(dual, out), back)
    return (
        left
        - xp.matmul(x, xp.matmul(out, left))
        + right
        - xp.matmul(xp.matmul(right, out), x)
        - xp.matmul(xp.matmul(dual, g), dual)
    )


def _columns(x: Any, is_vector: bool) -> Any:
    return x[..., None] if is_vector else x


def _solve_b(xp: Any, g: Any, a: Any, is_vector: bool) -> Any:
    found = xp.linalg.solve(adjoint(xp, a), _columns(g, is_vector))
    return found[..., 0] if is_vector else found


def _solve_a(xp: Any, g: Any, a: Any, out: Any, is_vector: bool) -> Any:
    solved = xp.linalg.solve(adjoint(xp, a), _columns(g, is_vector))
    return -xp.matmul(solved, adjoint(xp, _columns(out, is_vector)))


def _adjugate(xp: Any, x: Any) -> Any:
    """Return the adjugates (transposed cofactors) of matrices, which may be singular."""
    n = x.shape[-1]
    if xp.is_recorded:
        # The Faddeev-LeVerrier algorithm only uses sums and products, so it has derivatives everywhere.
        identity = xp.eye(n, dtype=x.dtype)
        found = xp.broadcast_to(identity, x.shape)
        for i in range(1, n):
            found = xp.matmul(x, found)
            trace = xp.sum(found * identity, axis=(-2, -1), keepdims=True)
            found = found - trace / i * identity
        return found if n % 2 else -found
    u, s, vh = xp.linalg.svd(x)
    others = s[..., None, :] * (1 - xp.eye(n, dtype=s.dtype)) + xp.eye(n, dtype=s.dtype)
    products = xp.prod(others, axis=-1) * (xp.linalg.det(u) * xp.linalg.det(vh))[..., None]
    return xp.matmul(adjoint(xp, vh) * products[..., None, :], adjoint(xp, u))


def _det(xp: Any, g: Any, x: Any, out: Any) -> Any:
    g = g[..., None, None]
    if xp.any(out == 0):
        return g * adjoint(xp, _adjugate(xp, x))
    return g * conj(xp, out)[..., None, None] * adjoint(xp, xp.linalg.inv(x))


def _slogdet_logabsdet(xp: Any, g: Any, x: Any) -> Any:
    return g[..., None, None] * adjoint(xp, xp.linalg.inv(x))


def _slogdet_sign(xp: Any, g: Any, x: Any, sign: Any) -> Any:
    if x.dtype.kind != "c":
        return xp.zeros_like(x)
    turned = conj(xp, g) * sign
    imaginary = 0.5 * (turned - conj(xp, turned))
    return -imaginary[..., None, None] * adjoint(xp, xp.linalg.inv(x))


define("inv", x=_inv)
define("pinv", x=_pinv)
define("solve", a=_solve_a, b=_solve_b)
define("det", x=_det)
_slogdet: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "sign": {"x": _slogdet_sign},
    "logabsdet": {"x": _slogdet_logabsdet},
}
define("slogdet_sign", derived=_slogdet, x=_slogdet_sign)
define("slogdet_logabsdet", derived=_slogdet, x=_slogdet_logabsdet)
define("matrix_rank", x=None)
