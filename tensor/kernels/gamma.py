"""The logarithm of the gamma function and its derivatives, for real arrays.

They use Stirling's series and the Euler-Maclaurin series for arguments of at least 15. Recurrences shift
smaller arguments (NIST Digital Library of Mathematical Functions, 5.11, 5.15 and 25.11). For the logarithm of
the gamma function, polynomials between 0 and 3 keep the precision near its zeros 1 and 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensor._dtypes import Array
from tensor.kernels.chebyshev import LGAMMA_1, LGAMMA_2, chebyshev
from tensor.kernels.special import floating

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
        size = np.abs(y)
        out = _lgamma_of_positive(size)
        # The reflection formula. Near an integer, only the difference from the integer gives a precise sine.
        sine = np.abs(np.sin(math.pi * (size - np.rint(size))))
        reflected = np.log(math.pi / (size * sine)) - out
        out = np.where(y < 0, np.where(size == np.floor(size), np.inf, reflected), out)
    return np.asarray(out).astype(dtype)


def _lgamma_of_positive(x: Array) -> Any:
    # The logarithm is 0 at 1 and 2. The exact factors (x - 1) and (x - 2) keep its precision near these.
    is_small = x < 0.5
    z = np.where(is_small, x, np.minimum(x, 1.5) - 1)
    # At 1 the first term is -0.0: adding 0.0 gives 0.0.
    first = z * (z - 1) * chebyshev(2 * np.minimum(z, 0.5), LGAMMA_1) + np.where(is_small, -np.log(x), 0.0)
    # Up to _FAR, products of x - 1, x - 2, ... lead to an argument from 2 to 3.
    moved = np.clip(x, 1.5, _FAR)
    shift = np.ones_like(moved)
    for _ in range(_FAR - 3):
        large = moved >= 3
        moved = np.where(large, moved - 1, moved)
        shift = np.where(large, shift * moved, shift)
    second = (moved - 1) * (moved - 2) * chebyshev((moved - 2.25) / 0.75, LGAMMA_2) + np.log(shift)
    far = np.maximum(x, _FAR)
    series = sum(b / (2 * k * (2 * k - 1) * far ** (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))
    third = (far - 0.5) * (np.log(far) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    third = np.where(np.isinf(far), np.inf, third)
    return np.where(x <= 1.5, first, np.where(x < _FAR, second, np.where(np.isnan(x), x, third)))


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
        # This sum depends on the distance to the nearest integer, and its sign on the side of that integer.
        sign = (-1.0) ** s
        fraction = np.where(y < 0, y - np.rint(y), 0.5)
        distance = np.abs(fraction)
        whole = _sum_of_powers(s, distance) + sign * _sum_of_powers(s, 1 - distance)
        whole = np.where(fraction < 0, sign * whole, whole)
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
