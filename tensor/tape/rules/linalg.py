"""Derivatives of linear algebra."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from tensor.tape.recording import Rule
from tensor.tape.rules.table import conj, define

# The names of dimensions. The module `string` has these letters too, but takes a millisecond to load.
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def is_reordered(arrays: list[Any]) -> bool:
    """Return whether einsum of `arrays` should search for the best order and use matrix products.

    With an empty array it should not: NumPy could iterate over 2**40 empty matrices.
    """
    return len(arrays) > 1 and all(0 not in x.shape for x in arrays)


def _matmul_a(xp: Any, g: Any, b: Any, to_shape: tuple[int, ...]) -> Any:
    if b.ndim == 1:
        return g[..., None] * conj(xp, b)
    if len(to_shape) == 1:
        return xp.matmul(conj(xp, b), g[..., None])[..., 0]
    return xp.matmul(g, conj(xp, xp.matrix_transpose(b)))


def _rows(xp: Any, x: Any) -> Any:
    """Return `x` as a matrix: all dimensions but the last are joined. It may be empty."""
    return xp.reshape(x, (prod(x.shape[:-1]), x.shape[-1]))


def _matmul_b(xp: Any, g: Any, a: Any, to_shape: tuple[int, ...]) -> Any:
    vector = len(to_shape) == 1
    if a.ndim == 1:
        return conj(xp, a) * g if vector else conj(xp, a)[:, None] * g[..., None, :]
    if vector:
        return xp.matmul(xp.matrix_transpose(conj(xp, a)), g[..., None])[..., 0]
    if len(to_shape) == 2 and a.ndim > 2:
        # One matrix multiplies the whole batch. Compute one product instead of one for each sample.
        a, g = _rows(xp, a), _rows(xp, g)
    return xp.matmul(conj(xp, xp.matrix_transpose(a)), g)


define("matmul", a=_matmul_a, b=_matmul_b)


def _einsum(xp: Any, g: Any, i: int, terms: list[str], result: str, to_shape: Any, *factors: Any) -> Any:
    """Multiply the gradient by the other factors, and sum over the dimensions that factor `i` lacks."""
    own = terms[i]
    sizes = dict(zip(own, to_shape, strict=True))
    others = [(term, conj(xp, x)) for k, (term, x) in enumerate(zip(terms, factors, strict=True)) if k != i]
    known = set(result).union(*(term for term, _ in others))
    free = iter(letter for letter in LETTERS if letter not in "".join([*terms, result]))
    wanted = ""
    parts = [(result, g), *others]
    for letter in own:
        if letter in wanted:
            # A letter that occurs twice selects the diagonal. The gradient is 0 outside of it.
            twin = next(free)
            parts.append((letter + twin, xp.eye(sizes[letter], dtype=g.dtype)))
            wanted += twin
        else:
            if letter not in known:
                parts.append((letter, xp.ones(sizes[letter], dtype=g.dtype)))
            wanted += letter
    equation, arrays = ",".join(term for term, _ in parts) + "->" + wanted, [x for _, x in parts]
    # The array API standard has no einsum.
    return xp.einsum(equation, *arrays, optimize=is_reordered(arrays))


define("einsum", each=_einsum)


@cache
def einsum_of(count: int) -> Rule:
    """Return the rule of an einsum of `count` factors. Each derivative gets all factors."""

    def each(*given: Any) -> Any:
        return _einsum(*given)

    each.needs = ("i", "terms", "result", "to_shape", *[f"_{k}" for k in range(count)])  # type: ignore[attr-defined]
    return Rule("einsum", {"each": each})
