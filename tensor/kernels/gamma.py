"""The logarithm of the gamma function and its derivatives, for real arrays.

They use Stirling's series and the Euler-Maclaurin series for arguments of at least 15. Recurrences shift
smaller arguments (NIST Digital Library of Mathematical Functions, 5.11, 5.15 and 25.11).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels.special import floating

if TYPE_CHECKING:
    from tensor._dtypes import Array

_FAR = 15
# Bernoulli numbers B2, B4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _real64(x: Any) -> tuple[Array, Any]:
    array = floating(x)
    if array.dtype.kind == "c":
        raise TypeError("the gamma function is defined for real tensors only: take x.real or x.abs() first")
    return array.astype(np.float64), array.dtype


def lgamma(x: Array) -> Any:
    """Return the logarithm of the absolute value of the gamma function. It is infinite at 0, -1, -2, ..."""
    y, dtype = _real64(x)
    with np.errstate(all="ignore"):
        right = np.where(y < 0.5, 1 - y, y)  # by the reflection formula
        shift, moved = np.ones_like(right), right.copy()
        for _ in range(_FAR):
            small = moved < _FAR
            shift = np.where(small, shift * moved, shift)
            moved = np.where(small, moved + 1, moved)
        series = sum(b / (2 * k * (2 * k - 1) * moved ** (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))
        out = (moved - 0.5) * np.log(moved) - moved + 0.5 * math.log(2 * math.pi) + series - np.log(shift)
        # Set exact zeros, and infinity at infinity, where the series is not defined.
        out = np.where((right == 1) | (right == 2), 0.0, np.where(np.isinf(right), np.inf, out))
        sine = np.abs(np.sin(math.pi * np.remainder(y, 1.0)))
        reflected = math.log(math.pi) - np.log(sine) - out
        whole = np.where((y <= 0) & (y == np.floor(y)), np.inf, reflected)
        out = np.where(y < 0.5, whole, out)
    return np.asarray(out).astype(dtype)


def digamma(x: Array) -> Any:
    """Return the derivative of the logarithm of the gamma function. It is nan at -1, -2, ..."""
    y, dtype = _real64(x)
    with np.errstate(all="ignore"):
        right = np.where(y < 0, 1 - y, y)
        shift, moved = np.zeros_like(right), right.copy()
        for _ in range(_FAR):
            small = moved < _FAR
            shift = np.where(small, shift + 1 / moved, shift)
            moved = np.where(small, moved + 1, moved)
        series = sum(b / (2 * k * moved ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
        out = np.log(moved) - 0.5 / moved - series - shift
        fraction = y - np.trunc(y)
        reflected = np.where(y == np.floor(y), np.nan, out - math.pi / np.tan(math.pi * fraction))
        out = np.where(y < 0, reflected, np.where(y == 0, np.copysign(np.inf, -y), out))
    return np.asarray(out).astype(dtype)


def polygamma(n: int, x: Array) -> Any:
    """Return the `n`-th derivative of digamma: (-1)**(n + 1) * n! * the sum of 1 / (x + k)**(n + 1)."""
    if n == 0:
        return digamma(x)
    y, dtype = _real64(x)
    s = n + 1
    with np.errstate(all="ignore"):
        # For negative y, take the sum over all integers, which has period 1, without the terms on the left.
        fraction = np.where(y < 0, y - np.floor(y), 0.5)
        sign = (-1.0) ** s
        whole = _sum_of_powers(s, fraction) + sign * _sum_of_powers(s, 1 - fraction)
        sums = np.where(y < 0, whole - sign * _sum_of_powers(s, 1 - y), _sum_of_powers(s, y))
        sums = np.where((y <= 0) & (y == np.floor(y)), np.inf, sums)
    return np.asarray(sign * math.factorial(n) * sums).astype(dtype)


def _sum_of_powers(s: int, y: Array) -> Array:
    """Return the sum of (y + k)**-s over k = 0, 1, ..., the Hurwitz zeta function, for `y` of at least 0."""
    near, moved = np.zeros_like(y), y.copy()
    for _ in range(_FAR):
        small = moved < _FAR
        near = np.where(small, near + moved ** float(-s), near)
        moved = np.where(small, moved + 1, moved)
    tail = moved ** (1.0 - s) / (s - 1) + 0.5 * moved ** float(-s)
    factor, power = float(s), moved ** (-s - 1.0)
    for k, b in enumerate(_BERNOULLI, 1):
        tail = tail + b / math.factorial(2 * k) * factor * power
        factor *= (s + 2 * k - 1) * (s + 2 * k)
        power = power / (moved * moved)
    return near + tail
