"""exp(x * x) * erfc(x), and with it the logarithm of the standard normal distribution function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array
from tensor.kernels.chebyshev import ERFCX, chebyshev
from tensor.kernels.special import erfc

if TYPE_CHECKING:
    from collections.abc import Callable


# Beyond 27, exp(x * x) overflows. Beyond 40, 1 - ndtr(x) is less than the smallest positive double.
_MOST = 40.0
_ROOT_HALF = math.sqrt(0.5)
# Veltkamp's factor, to split a double into its upper 26 bits and the rest.
_SPLIT = 2.0**27 + 1


def erfcx(x: Array) -> Any:
    """Return exp(x * x) * erfc(x)."""
    return _in_float64(_erfcx, x)


def log_ndtr(x: Array) -> Any:
    """Return the logarithm of the standard normal distribution function."""
    return _in_float64(_log_ndtr, x)


def _in_float64(function: Callable[[Array], Any], x: Array) -> Any:
    with np.errstate(all="ignore"):
        found = np.asarray(function(np.asarray(x, np.float64)))
    return found.astype(x.dtype if x.dtype.kind == "f" else np.float32)


def _erfcx(x: Array) -> Any:
    positive = _erfcx_of_positive(np.abs(x))
    found = np.where(x < 0, 2 * _exp_of_square(x, 1.0) - positive, positive)
    small = np.clip(x, -0.5, 0.5)
    return np.where(np.abs(x) < 0.5, np.exp(np.square(small)) * erfc(small), found)


def _erfcx_of_positive(x: Array) -> Any:
    t = 1 - 7.5 / (x + 3.75)
    return chebyshev(t, ERFCX) * 0.5 / (x + 0.5)


def _exp_of_square(x: Array, factor: float) -> Any:
    """Return exp(factor * x * x), with abs(x) limited to 40, and without the rounding error of x * x."""
    size = np.minimum(np.abs(x), _MOST)
    wide = size * _SPLIT
    high = wide - (wide - size)
    low = size - high
    square = size * size
    rest = ((high * high - square) + 2 * high * low) + low * low
    return np.exp(factor * square) * (1 + factor * rest)


def _log_ndtr(x: Array) -> Any:
    scaled = 0.5 * _erfcx_of_positive(np.abs(x) * _ROOT_HALF)  # ndtr(-abs(x)) * exp(x * x / 2)
    low = np.log(scaled) - 0.5 * np.square(x)
    near = np.log1p(-0.5 * erfc(np.clip(x, -1.0, 1.0) * _ROOT_HALF))
    high = np.log1p(-scaled * _exp_of_square(x, -0.5))
    return np.where(x < -1, low, np.where(x > 1, high, near))
