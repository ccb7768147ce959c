"""Modified Bessel functions of the first kind, of order 0 and 1, with and without exp(-abs(x))."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor._dtypes import Array
from tensor.kernels.chebyshev import I0_FAR, I0_NEAR, I1_FAR, I1_NEAR, chebyshev

# Up to this x, use a polynomial in x; beyond, one in 1 / x.
_BEND = 8.0
_NEAR = I0_NEAR, I1_NEAR
_FAR = I0_FAR, I1_FAR


def bessel_i(order: int, is_scaled: bool, x: Array) -> Any:
    """Return I(x) of order 0 or 1, times exp(-abs(x)) if `is_scaled`."""
    size = np.abs(np.asarray(x, np.float64))
    near, far = np.minimum(size, _BEND), np.maximum(size, _BEND)
    inner = chebyshev(near / 4 - 1, _NEAR[order]) * near**order
    outer = chebyshev(16 / far - 1, _FAR[order]) / np.sqrt(far)
    found = np.where(size <= _BEND, inner, outer)
    if not is_scaled:
        with np.errstate(over="ignore"):
            half = np.exp(size / 2)  # exp(size) overflows before the result does
            found = found * half * half
    found = np.where(np.isnan(size), size, np.where(np.isinf(size) & is_scaled, 0.0, found))
    if order == 1:
        found = np.copysign(found, x)
    return found.astype(x.dtype if x.dtype.kind == "f" else np.float32)
