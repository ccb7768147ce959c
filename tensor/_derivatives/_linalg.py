"""Derivatives of linear algebra."""

from __future__ import annotations

from typing import Any

from tensor._derivatives._table import conj, define


def _matmul_a(xp: Any, g: Any, b: Any, to_shape: tuple[int, ...]) -> Any:
    if b.ndim == 1:
        return g[..., None] * conj(xp, b)
    if len(to_shape) == 1:
        return xp.matmul(conj(xp, b), g[..., None])[..., 0]
    return xp.matmul(g, conj(xp, xp.matrix_transpose(b)))


def _matmul_b(xp: Any, g: Any, a: Any, to_shape: tuple[int, ...]) -> Any:
    vector = len(to_shape) == 1
    if a.ndim == 1:
        return conj(xp, a) * g if vector else conj(xp, a)[:, None] * g[..., None, :]
    if vector:
        return xp.matmul(xp.matrix_transpose(conj(xp, a)), g[..., None])[..., 0]
    if len(to_shape) == 2 and a.ndim > 2:
        # One matrix for a whole batch: one product, instead of one for each member and a sum.
        a, g = xp.reshape(a, (-1, a.shape[-1])), xp.reshape(g, (-1, g.shape[-1]))
    return xp.matmul(conj(xp, xp.matrix_transpose(a)), g)


define("matmul", a=_matmul_a, b=_matmul_b)
