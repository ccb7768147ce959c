"""Derivatives of elementwise ops."""

from __future__ import annotations

import cmath
import math
from typing import Any

from tensor.tape.rules.table import conj, define

# Apply masks with `keep_where`, not by multiplication: an infinite gradient times 0 would be nan.


def _cube(xp: Any, g: Any, a: Any) -> Any:
    return xp.scaled_product(g, 3, a * a)


def _power_by_base(xp: Any, g: Any, a: Any, b: Any) -> Any:
    """Return g * b * a**(b - 1), and 0 where b is 0: also at a = 0, where a**(b - 1) is infinite."""
    if not hasattr(b, "dtype"):
        if b == 0:
            return xp.zeros_like(g)
        if b == 3:
            return xp.slope("cube", g, a, _cube)
        return xp.scaled_product(g, b, a if b == 2 else xp.pow(a, b - 1))
    zero = b == 0
    if not xp.any(zero):
        return g * conj(xp, b * xp.pow(a, b - 1))
    return xp.keep_where(g * conj(xp, b * xp.pow(a, xp.where(zero, 1, b - 1))), ~zero)


def _power_by_exponent(xp: Any, g: Any, a: Any, out: Any) -> Any:
    """Return g * out * log(a), and 0 where a is 0 and `out` is finite (b >= 0), as in PyTorch.

    A real base to a complex exponent has a complex logarithm: that of a negative number is not nan.
    """
    is_complex = out.dtype.kind == "c"
    if not hasattr(a, "dtype"):
        if a == 0:
            return xp.keep_where(g * conj(xp, out * -math.inf), ~(xp.abs(out) < math.inf))
        if is_complex:
            log: complex = cmath.log(a)
        else:
            log = math.log(a) if a > 0 else math.nan
        return g * conj(xp, out * log)
    if is_complex and a.dtype.kind != "c":
        a = a + 0j
    zero = a == 0
    if not xp.any(zero):
        return g * conj(xp, out * xp.log(a))
    constant = zero & (xp.abs(out) < math.inf)
    return xp.keep_where(g * conj(xp, out * xp.log(xp.where(constant, 1, a))), ~constant)


def _gradient_of_larger(xp: Any, g: Any, a: Any, b: Any) -> Any:
    """Return `g` where `a` is larger or one is nan, and half of it where they are equal, as in PyTorch."""
    to_larger, tied = xp.keep_where(g, ~(a < b)), a == b
    return xp.where(tied, 0.5 * g, to_larger) if tied.any() else to_larger


def _clip_by_input(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    inside = True if min is None else x >= min
    return xp.keep_where(g, inside if max is None else inside & (x <= max))


def _clip_by_min(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    return xp.keep_where(g, x < min if max is None else (x < min) & (min < max))


def _clip_by_max(xp: Any, g: Any, x: Any, min: Any, max: Any) -> Any:
    # If min > max, the result is max.
    return xp.keep_where(g, x > max if min is None else (x > max) | (max < min))


def _by_sign(xp: Any, g: Any, x: Any, below: Any) -> Any:
    return xp.where(x > 0, g, g * below)


def _elu(xp: Any, g: Any, out: Any, alpha: float) -> Any:
    below = xp.minimum(out, 0) + alpha
    return g * below if alpha == 1 else _by_sign(xp, g, out, below)


# float32 and float64 use kernels with one pass (`tensor.kernels.namespace`). Other dtypes use these formulas.


def _tanh(xp: Any, g: Any, out: Any) -> Any:
    return g * conj(xp, 1 - out * out)


def _sigmoid(xp: Any, g: Any, out: Any) -> Any:
    return g * conj(xp, out * (1 - out))


def _logsigmoid(xp: Any, g: Any, out: Any) -> Any:
    return g * -xp.expm1(out)


def _smooth_softplus(xp: Any, g: Any, out: Any) -> Any:
    return g * -xp.expm1(-out)


def _softplus(xp: Any, g: Any, out: Any, beta: float) -> Any:
    return xp.slope("softplus", g, out if beta == 1 else beta * out, _smooth_softplus)


def _silu(xp: Any, g: Any, x: Any) -> Any:
    gate = xp.sigmoid(x)
    return g * (gate * (1 + x * (1 - gate)))


def _erf(xp: Any, g: Any, x: Any) -> Any:
    return g * (2 / math.sqrt(math.pi)) * xp.exp(-x * x)


def _bessel_i(xp: Any, g: Any, x: Any, out: Any, order: int, is_scaled: bool) -> Any:
    # I0' = I1, and I1' = I0 - I1 / x, which is 1 / 2 at 0.
    other = xp.bessel_i(1 - order, is_scaled, x)
    if order == 0:
        slope = other
    else:
        is_zero = x == 0
        slope = xp.where(is_zero, 0.5, other - out / xp.where(is_zero, 1, x))
    return g * (slope - xp.sign(x) * out if is_scaled else slope)


def _gelu(xp: Any, g: Any, x: Any) -> Any:
    gate = 0.5 * (1 + xp.erf(x * math.sqrt(0.5)))
    return g * (gate + x * xp.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))


def _gelu_by_tanh(xp: Any, g: Any, x: Any) -> Any:
    # For large inputs tanh is 1. Clip the square, because infinity times 0 would be nan.
    square = xp.minimum(x * x, 100.0)
    scale = math.sqrt(2 / math.pi)
    t = xp.tanh(x * (scale + scale * 0.044715 * square))
    inner_slope = scale + 3 * scale * 0.044715 * square
    return (0.5 * g) * (1 + t + x * (1 - t * t) * inner_slope)


def _squared_distance(a: Any, b: Any) -> Any:
    """Return a*a + b*b, and 1 at the origin, so that gradients are 0 there, as in PyTorch."""
    squares = a * a + b * b
    return squares + (squares == 0)


def _softmax_of_two(xp: Any, a: Any, b: Any) -> Any:
    """Return exp(a) / (exp(a) + exp(b)), from a - b so that large values do not overflow."""
    return xp.sigmoid(a - b) if xp.is_recorded else 1 / (1 + xp.exp(b - a))


def _sign(xp: Any, g: Any, x: Any) -> Any:
    """Return the part of `g` perpendicular to a complex `x`, divided by abs(x). A real sign is constant."""
    if x.dtype.kind != "c":
        return xp.zeros_like(g)
    size = xp.abs(x)
    size = xp.where(size == 0, 1, size)
    direction = x / size
    return (g - xp.real(g * xp.conj(direction)) * direction) / size


# Arithmetic

define("add", a=lambda xp, g: g, b=lambda xp, g: g)
define("subtract", a=lambda xp, g: g, b=lambda xp, g: xp.negative(g))
define(
    "multiply",
    a=lambda xp, g, b: xp.multiply(g, conj(xp, b)),
    b=lambda xp, g, a: xp.multiply(g, conj(xp, a)),
)
define(
    "divide",
    a=lambda xp, g, b: xp.divide(g, conj(xp, b)),
    b=lambda xp, g, b, out: -g * conj(xp, out / b),
)
define(
    "pow",
    a=_power_by_base,
    b=_power_by_exponent,
)
define("remainder", a=lambda xp, g: g, b=lambda xp, g, a, b: -g * xp.floor_divide(a, b))
define("floor_divide", a=lambda xp, g: xp.zeros_like(g), b=lambda xp, g: xp.zeros_like(g))
define("negative", x=lambda xp, g: xp.negative(g))
define("positive", x=lambda xp, g: g)
define("reciprocal", x=lambda xp, g, out: -g * conj(xp, out * out))
define("square", x=lambda xp, g, x: xp.scaled_product(g, 2, x))
define("abs", x=lambda xp, g, x: g * xp.sign(x))
define(
    "maximum",
    a=lambda xp, g, a, b: _gradient_of_larger(xp, g, a, b),
    b=lambda xp, g, a, b: _gradient_of_larger(xp, g, b, a),
)
define(
    "minimum",
    a=lambda xp, g, a, b: _gradient_of_larger(xp, g, b, a),
    b=lambda xp, g, a, b: _gradient_of_larger(xp, g, a, b),
)
define("clip", x=_clip_by_input, min=_clip_by_min, max=_clip_by_max)
define("hypot", a=lambda xp, g, a, out: g * (a / out), b=lambda xp, g, b, out: g * (b / out))
define(
    "atan2",
    a=lambda xp, g, a, b: g * (b / _squared_distance(a, b)),
    b=lambda xp, g, a, b: -g * (a / _squared_distance(a, b)),
)
define(
    "logaddexp",
    a=lambda xp, g, a, b: g * _softmax_of_two(xp, a, b),
    b=lambda xp, g, a, b: g * _softmax_of_two(xp, b, a),
)
define(
    "copysign",
    a=lambda xp, g, a, out: g * (xp.sign(a) * xp.sign(out)),
    b=lambda xp, g: xp.zeros_like(g),
)
# nextafter(a, b): the next floating-point number after `a` toward `b`; `b` if they are equal.
define(
    "nextafter",
    a=lambda xp, g, a, b: xp.keep_where(g, a != b),
    b=lambda xp, g, a, b: xp.keep_where(g, a == b),
)
define(
    "lerp",
    a=lambda xp, g, w: g * conj(xp, 1 - w),
    b=lambda xp, g, w: g * conj(xp, w),
    w=lambda xp, g, a, b: g * conj(xp, b - a),
)
define(
    "where",
    condition=None,
    a=lambda xp, g, condition: xp.where(condition, g, 0),
    b=lambda xp, g, condition: xp.where(condition, 0, g),
)

# Powers, exponentials, logarithms

define("exp", x=lambda xp, g, out: xp.multiply(g, conj(xp, out)))
define("exp2", x=lambda xp, g, out: g * conj(xp, out) * math.log(2))
define("expm1", x=lambda xp, g, out: g * conj(xp, out + 1))
define("log", x=lambda xp, g, x: xp.divide(g, conj(xp, x)))
define("log1p", x=lambda xp, g, x: g / conj(xp, x + 1))
define("log2", x=lambda xp, g, x: g / conj(xp, x * math.log(2)))
define("log10", x=lambda xp, g, x: g / conj(xp, x * math.log(10)))
define("sqrt", x=lambda xp, g, out: xp.divide(g, conj(xp, 2 * out)))
define("rsqrt", x=lambda xp, g, out: g * conj(xp, -0.5 * out * out * out))

# Trigonometry

define("sin", x=lambda xp, g, x: g * conj(xp, xp.cos(x)))
define("cos", x=lambda xp, g, x: -g * conj(xp, xp.sin(x)))
define("tan", x=lambda xp, g, out: g * conj(xp, 1 + out * out))
define("asin", x=lambda xp, g, x: g / conj(xp, xp.sqrt(1 - x * x)))
define("acos", x=lambda xp, g, x: -g / conj(xp, xp.sqrt(1 - x * x)))
define("atan", x=lambda xp, g, x: g / conj(xp, 1 + x * x))
define("sinh", x=lambda xp, g, x: g * conj(xp, xp.cosh(x)))
define("cosh", x=lambda xp, g, x: g * conj(xp, xp.sinh(x)))
define("tanh", x=lambda xp, g, out: xp.slope("tanh", g, out, _tanh))
define("asinh", x=lambda xp, g, x: g / conj(xp, xp.sqrt(x * x + 1)))
define("acosh", x=lambda xp, g, x: g / conj(xp, xp.sqrt(x - 1) * xp.sqrt(x + 1)))
define("atanh", x=lambda xp, g, x: g / conj(xp, 1 - x * x))

# Complex numbers

define("conj", x=lambda xp, g: conj(xp, g))
define("sign", x=_sign)

# Activations and special functions

# These use the output, which the next layer usually saves too.
define("relu", x=lambda xp, g, out: xp.where_nonzero(g, out))  # keeps `g` at nan
# The output has the sign of the input, unless the slope below 0 is negative.
define("leaky_relu", x=lambda xp, g, out, slope: _by_sign(xp, g, out, slope))
define("leaky_relu_by_input", x=lambda xp, g, x, slope: _by_sign(xp, g, x, slope))
define("elu", x=_elu)
define("elu_by_input", x=lambda xp, g, x, alpha: _by_sign(xp, g, x, alpha * xp.exp(xp.minimum(x, 0))))
define("sigmoid", x=lambda xp, g, out: xp.slope("sigmoid", g, out, _sigmoid))
define("logsigmoid", x=lambda xp, g, out: xp.slope("logsigmoid", g, out, _logsigmoid))
define("softplus", x=_softplus)
define(
    "softplus_with_bend",
    x=lambda xp, g, x, out, beta, threshold: g * xp.where(beta * x > threshold, 1, -xp.expm1(-beta * out)),
)
define("silu", x=lambda xp, g, x: xp.slope("silu", g, x, _silu))
define("gelu", x=lambda xp, g, x: xp.slope("gelu", g, x, _gelu))
define("gelu_by_tanh", x=lambda xp, g, x: xp.slope("gelu_by_tanh", g, x, _gelu_by_tanh))
define("erf", x=lambda xp, g, x: xp.slope("erf", g, x, _erf))
define("erfinv", x=lambda xp, g, out: g * (math.sqrt(math.pi) / 2) * xp.exp(out * out))
define("erfc", x=lambda xp, g, x: g * (-2 / math.sqrt(math.pi)) * xp.exp(-x * x))

define("bessel_i", x=_bessel_i)
define("erfcx", x=lambda xp, g, x, out: g * (2 * x * out - 2 / math.sqrt(math.pi)))
define("log_ndtr", x=lambda xp, g, x: g * math.sqrt(2 / math.pi) / xp.erfcx(x * -math.sqrt(0.5)))
define("lgamma", x=lambda xp, g, x: g * xp.polygamma(0, x))
define("polygamma", x=lambda xp, g, x, n: g * xp.polygamma(n + 1, x))

# Constant almost everywhere: the gradient is zero, as in PyTorch

for _name in ("ceil", "floor", "round", "trunc"):
    define(_name, x=lambda xp, g: xp.zeros_like(g))

# Not differentiable: bits, comparisons, tests

for _name in (
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "not_equal",
):
    define(_name, a=None, b=None)
for _name in ("bitwise_invert", "isfinite", "isinf", "isnan", "logical_not", "signbit"):
    define(_name, x=None)

# In-place ops that replace the values

define("copy", x=lambda xp, g: xp.zeros_like(g), source=lambda xp, g: g)
define("fill", x=lambda xp, g: xp.zeros_like(g))
