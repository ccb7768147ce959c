"""NumPy's functions where the array API standard names other results for infinities, nan and zeros."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels import exponentials

if TYPE_CHECKING:
    from tensor._dtypes import Array


def expm1(x: Array) -> Any:
    """Return exp(x) - 1, precise near 0; of complex zeros, infinities and nan what ``exp`` says, less 1.

    NumPy's gives nan for most of these.
    """
    out = np.expm1(x)
    if x.dtype.kind != "c":
        return out
    special = ~np.isfinite(x) | (x == 0)
    return np.where(special, np.exp(x) - 1, out) if special.any() else out


def floor_divide(x1: Any, x2: Any, out: Array | None = None) -> Any:
    """Return the quotient rounded down; infinite over finite is infinite, and finite over infinite is 0.

    NumPy gives nan for the first, and -1 for the second where the signs differ.
    """
    by = _is_infinite(x2)
    over = _is_infinite(x1)
    if not (np.any(over) or np.any(by)):
        return np.floor_divide(x1, x2, out=out)
    # Of one infinity and a finite number the plain quotient is whole.
    found = np.where(over ^ by, np.divide(x1, x2), np.floor_divide(x1, x2))
    if out is None:
        return found
    np.copyto(out, found, casting="same_kind")
    return out


def _is_infinite(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return np.isinf(x) if x.dtype.kind == "f" else np.False_
    return np.bool_(isinstance(x, float) and isinf(x))


def tanh(x: Array) -> Any:
    """Return the hyperbolic tangent; where a real part is infinite, the imaginary one is 0 with its sign.

    NumPy's zero has the sign of the sine of twice the imaginary part, as in C.
    """
    out = exponentials.tanh(x)
    if x.dtype.kind != "c":
        return out
    special = np.isinf(x.real) & np.isfinite(x.imag)
    if special.any():
        out = np.array(out)
        out.imag[special] = np.copysign(0.0, x.imag[special])
    return out
