"""Modified Bessel functions of the first kind, of order 0 and 1, with and without exp(-abs(x))."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tensor._dtypes import Array

# Up to this x, use a polynomial in x; beyond, one in 1 / x.
_BEND = 8.0
# The number of points of the integral. Its error falls faster than any power of this number.
_POINTS = 512


def _by_integral(x: Array, order: int) -> Any:
    """Return exp(-x) I(x) for x >= 0: the mean of exp(x (cos t - 1)) cos(order t) for t from 0 to pi."""
    t = (np.arange(_POINTS) + 0.5) * (math.pi / _POINTS)
    return np.mean(np.exp(np.multiply.outer(x, np.cos(t) - 1)) * np.cos(order * t), axis=-1)


class _Polynomial:
    """The Chebyshev approximation of a function on an interval from 0."""

    def __init__(self, function: Callable[[Array], Any], degree: int, end: float) -> None:
        self.end = end
        angles = (np.arange(degree) + 0.5) * (math.pi / degree)
        values = function((np.cos(angles) + 1) * (end / 2))
        self.terms: Array = (2 / degree) * np.cos(np.outer(np.arange(degree), angles)) @ values

    def __call__(self, x: Array) -> Any:
        t = x * (2 / self.end) - 1
        last: Any = np.zeros_like(t)
        before: Any = np.zeros_like(t)
        for term in self.terms[:0:-1]:
            last, before = 2 * t * last - before + term, last
        return t * last - before + 0.5 * self.terms[0]


@cache
def _polynomials(order: int) -> tuple[_Polynomial, _Polynomial]:
    """Return polynomials: exp(-x) I(x) / x**order up to _BEND, and sqrt(x) exp(-x) I(x) in 1 / x beyond."""

    def beyond(inverse: Array) -> Any:
        # Use Hankel's expansion for very large x, where the integral would need more points.
        x = 1 / np.maximum(inverse, 2e-4)
        return np.where(inverse < 2e-4, _far(inverse, order), np.sqrt(x) * _by_integral(x, order))

    near = _Polynomial(lambda x: _by_integral(x, order) / x**order, 34, _BEND)
    far = _Polynomial(beyond, 30, 1 / _BEND)
    return near, far


def _far(inverse: Array, order: int) -> Any:
    """Return the first terms of Hankel's expansion of sqrt(x) exp(-x) I(x)."""
    total, term = np.ones_like(inverse), np.ones_like(inverse)
    for k in range(1, 6):
        term = term * ((2 * k - 1) ** 2 - 4 * order**2) * inverse / (8 * k)
        total = total + term
    return total / math.sqrt(2 * math.pi)


def bessel_i(order: int, is_scaled: bool, x: Array) -> Any:
    """Return I(x) of order 0 or 1, times exp(-abs(x)) if `is_scaled`."""
    size = np.abs(np.asarray(x, np.float64))
    near, far = _polynomials(order)
    inner = near(np.minimum(size, _BEND)) * size**order
    outer = np.maximum(size, _BEND)
    found = np.where(size <= _BEND, inner, far(1 / outer) / np.sqrt(outer))
    if not is_scaled:
        with np.errstate(over="ignore"):
            found = found * np.exp(size)
    found = np.where(np.isnan(size), size, np.where(np.isinf(size) & is_scaled, 0.0, found))
    if order == 1:
        found = np.copysign(found, x)
    return found.astype(x.dtype if x.dtype.kind == "f" else np.float32)
