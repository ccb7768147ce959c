"""Derivatives of linear algebra."""

from __future__ import annotations

from typing import Any

from tensor._derivatives._table import conj, define


def _matmul_a(xp: Any, g: Any, b: Any, a_shape: tuple[int, ...]) -> Any:
    if b.ndim == 1:
        return g[..., None] * conj(xp, b)
    if len(a_shape) == 1:
        return xp.matmul(conj(xp, b), g[..., None])[..., 0]
    return xp.matmul(g, conj(xp, xp.matrix_transpose(b)))


def _matmul_b(xp: Any, g: Any, a: Any, b_shape: tuple[int, ...]) -> Any:
    if a.ndim == 1:
        return conj(xp, a) * g if len(b_shape) == 1 else conj(xp, a)[:, None] * g[..., None, :]
    if len(b_shape) == 1:
        return xp.matmul(xp.matrix_transpose(conj(xp, a)), g[..., None])[..., 0]
    return xp.matmul(conj(xp, xp.matrix_transpose(a)), g)


define("matmul", a=_matmul_a, b=_matmul_b)
