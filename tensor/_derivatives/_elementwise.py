"""Derivatives of elementwise ops."""

from __future__ import annotations

import math
from typing import Any

from tensor._derivatives._table import conj, define

define("add", a=lambda xp, g: g, b=lambda xp, g: g)
define("subtract", a=lambda xp, g: g, b=lambda xp, g: -g)
define("multiply", a=lambda xp, g, b: g * conj(xp, b), b=lambda xp, g, a: g * conj(xp, a))
define(
    "divide",
    a=lambda xp, g, b: g / conj(xp, b),
    b=lambda xp, g, b, out: -g * conj(xp, out / b),
)
define("negative", x=lambda xp, g: -g)
define("positive", x=lambda xp, g: g)
define(
    "pow",
    a=lambda xp, g, a, b: g * conj(xp, _power_slope(xp, a, b)),
    b=lambda xp, g, a, out: g * conj(xp, out * _log_where_positive(xp, a)),
)
define("remainder", a=lambda xp, g: g, b=lambda xp, g, a, b: -g * xp.floor(a / b))
define("exp", x=lambda xp, g, out: g * conj(xp, out))
define("log", x=lambda xp, g, x: g / conj(xp, x))
define("sqrt", x=lambda xp, g, out: g / conj(xp, 2 * out))
define("tanh", x=lambda xp, g, out: g * conj(xp, 1 - out * out))


def _power_slope(xp: Any, a: Any, b: Any) -> Any:
    """b * a**(b - 1), and 0 where b is 0: also at a = 0, where a**(b - 1) is infinite."""
    if not hasattr(b, "dtype"):
        return 0 * a if b == 0 else b * a ** (b - 1)
    zero = b == 0
    return xp.where(zero, 0, b * a ** xp.where(zero, 1, b - 1))


def _log_where_positive(xp: Any, a: Any) -> Any:
    """log(a), and 0 at a = 0, where a**b does not change with b > 0."""
    if not hasattr(a, "dtype"):
        return math.log(a) if a != 0 else 0.0
    return xp.log(xp.where(a == 0, 1, a))
