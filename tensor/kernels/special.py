"""Kernels that NumPy lacks: erf and its kin, sigmoid, softplus, without overflow and warnings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels.splitting import least, split, split_in_place
from tensor.memory.allocator import empty

if TYPE_CHECKING:
    from tensor._dtypes import Array

# W. J. Cody, "Rational Chebyshev approximation for the error function", Mathematics of Computation 23 (1969):
# near-minimax quotients, good to 1e-16 in float64, on |x| <= 0.46875, on up to 4, and beyond.
_SMALL_P = (3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3)
_SMALL_LEADING = 1.85777706184603153e-1
_SMALL_Q = (2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MIDDLE_P = (
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_MIDDLE_LEADING = 2.15311535474403846e-8
_MIDDLE_Q = (
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
_LARGE_P = (
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
)
_LARGE_LEADING = 1.63153871373020978e-2
_LARGE_Q = (
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)
_INVERSE_ROOT_PI = 0.56418958354775628695

# erf(x) = x P(x*x) / Q(x*x) on |x| <= 4, within 3e-9 (beyond, erf is 1 in float32): by least squares at 4,000
# Chebyshev nodes, weights raised where the error was largest.
_SINGLE_P = (
    6.791506498383822e-06,
    0.0004112818361427632,
    0.004226505278024556,
    0.05574964232718501,
    0.1928788727137556,
    1.1283791699749361,
)
_SINGLE_Q = (
    2.6049335390989096e-07,
    7.256493853818827e-05,
    0.0014212152831660288,
    0.016295183781577436,
    0.11749548008366345,
    0.5042678842371373,
    1.0,
)
# M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37
# (1988): quotients of polynomials, good to 1e-16, of 0.180625 - (x/2)**2 where that is at least 0, else of
# r - 1.6 with r = sqrt(-log((1 - |x|) / 2)), and of r - 5 where that is larger than 0. Highest power first.
_CENTRE_P = (
    2.5090809287301226727e3,
    3.3430575583588128105e4,
    6.7265770927008700853e4,
    4.5921953931549871457e4,
    1.3731693765509461125e4,
    1.9715909503065514427e3,
    1.3314166789178437745e2,
    3.3871328727963666080e0,
)
_CENTRE_Q = (
    5.2264952788528545610e3,
    2.8729085735721942674e4,
    3.9307895800092710610e4,
    2.1213794301586595867e4,
    5.3941960214247511077e3,
    6.8718700749205790830e2,
    4.2313330701600911252e1,
    1.0,
)
_NEAR_P = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258e0,
    3.64784832476320460504e0,
    5.76949722146069140550e0,
    4.63033784615654529590e0,
    1.42343711074968357734e0,
)
_NEAR_Q = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940e0,
    2.05319162663775882187e0,
    1.0,
)
_FAR_P = (
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    2.96560571828504891230e-1,
    1.78482653991729133580e0,
    5.46378491116411436990e0,
    6.65790464350110377720e0,
)
_FAR_Q = (
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    1.36929880922735805310e-1,
    5.99832206555887937690e-1,
    1.0,
)
_ROOT_HALF = 0.70710678118654752440

# Elements at a time, whose intermediate values stay in the processor's cache.
_AT_ONCE = 8192


def _quotient(x: Array, leading: float, p: tuple[float, ...], q: tuple[float, ...]) -> Any:
    top = leading * x + p[0]
    bottom = x + q[0]
    for up, down in zip(p[1:], q[1:], strict=True):
        top = top * x + up
        bottom = bottom * x + down
    return top / bottom


def erfc(x: Array) -> Array:
    """Return 1 - erf(x), with full relative precision for large `x`."""
    return _in_float64(_erfc64, x)


def erf(x: Array) -> Array:
    """Return 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to `x`."""
    x = _real("the error function", x)
    return _in_float64(_erf64, x) if x.dtype.itemsize == 8 else _erf32(x)


def erfinv(x: Array) -> Array:
    """Return y with erf(y) = `x`; infinite at -1 and 1, not a number beyond."""
    return _in_float64(_erfinv64, x)


def floating(x: Any) -> Any:
    """Return `x` where it is inexact, integers and bools in the floating dtype that holds them."""
    array: Any = x if type(x) is np.ndarray else np.asarray(x)
    return array if array.dtype.kind in "fc" else array.astype(np.result_type(array.dtype, np.float32))


def _real(name: str, x: Any) -> Any:
    array = floating(x)
    if array.dtype.kind == "c":
        raise TypeError(f"{name} is defined for real tensors only: take x.real or x.abs() first")
    return array


def _in_float64(kernel: Any, x: Array) -> Array:
    x = _real("the error function", x)
    out: Array = kernel(np.atleast_1d(x).astype(np.float64)).astype(x.dtype)
    return out.reshape(x.shape)


def _erf64(x: Array) -> Any:
    y = np.abs(x)
    small = y <= 0.46875
    s = np.where(small, y, 0.0) ** 2
    near = x * _quotient(s, _SMALL_LEADING, _SMALL_P, _SMALL_Q)
    return np.where(small, near, np.sign(x) * (1 - _tail(y)))


def _erf32(x: Array) -> Any:
    """Return erf of numbers of at most single precision: a fifth of the time of `_erf64`."""
    array = x
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return _erf32(x.T).T
    out = empty(array.shape, array.dtype)
    source, target = array.reshape(-1), out.reshape(-1)
    y, square, sums = (empty((min(source.size, _AT_ONCE),), np.float64) for _ in range(3))
    for start in range(0, source.size, _AT_ONCE):
        part = source[start : start + _AT_ONCE]
        if part.size < y.size:
            y, square, sums = y[: part.size], square[: part.size], sums[: part.size]
        np.minimum(part, 4.0, out=y)
        np.maximum(y, -4.0, out=y)
        np.multiply(y, y, out=square)
        y *= _horner(square, _SINGLE_P, sums)
        y /= _horner(square, _SINGLE_Q, sums)
        target[start : start + _AT_ONCE] = y
    return out


def _horner(x: Array, coefficients: tuple[float, ...], out: Array) -> Array:
    np.multiply(x, coefficients[0], out=out)
    for c in coefficients[1:-1]:
        out += c
        out *= x
    out += coefficients[-1]
    return out


def _erfc64(x: Array) -> Any:
    y = np.abs(x)
    small = y <= 0.46875
    s = np.where(small, y, 0.0) ** 2
    near = 1 - x * _quotient(s, _SMALL_LEADING, _SMALL_P, _SMALL_Q)
    tail = _tail(y)
    return np.where(small, near, np.where(x < 0, 2 - tail, tail))


def _tail(y: Array) -> Any:
    """Return erfc(y) for y > 0.46875; other elements are of no use."""
    y = np.minimum(np.maximum(y, 0.46875), 27.0)  # erfc(27) is 0 in float64; nan stays nan
    # exp(-y*y) in two steps, since y*y loses digits that the exponential would magnify.
    coarse = np.trunc(y * 16) / 16
    scale = np.exp(-coarse * coarse) * np.exp(-(y - coarse) * (y + coarse))
    middle = _quotient(y, _MIDDLE_LEADING, _MIDDLE_P, _MIDDLE_Q)
    s = 1 / (y * y)
    large = (_INVERSE_ROOT_PI - s * _quotient(s, _LARGE_LEADING, _LARGE_P, _LARGE_Q)) / y
    return np.where(y <= 4, middle, large) * scale


def _erfinv64(x: Array) -> Any:
    y = np.abs(x)
    centre = 0.180625 - 0.25 * np.square(np.minimum(y, 0.85))
    inner = (0.5 * _ROOT_HALF) * y * (_polynomial(centre, _CENTRE_P) / _polynomial(centre, _CENTRE_Q))
    # 40 is beyond all numbers below 1; where `x` is 1, the polynomials would make inf / inf.
    r = np.minimum(np.sqrt(-np.log(0.5 * (1 - y))), 40.0)
    near = _polynomial(r - 1.6, _NEAR_P) / _polynomial(r - 1.6, _NEAR_Q)
    far = _polynomial(r - 5, _FAR_P) / _polynomial(r - 5, _FAR_Q)
    outer = np.where(r == 40, np.inf, np.where(r <= 5, near, far) * _ROOT_HALF)
    return np.copysign(np.where(y <= 0.85, inner, outer), x)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    return _horner(x, coefficients, np.empty_like(x))


def sigmoid(x: Array) -> Any:
    """Return 1 / (1 + exp(-x)), with full relative precision for negative `x`."""
    x = floating(x)
    if x.dtype.kind == "c":
        return np.reciprocal(np.exp(-x) + 1)
    return _without_overflow(_sigmoid, x)


def silu(x: Array) -> Any:
    """Return x * sigmoid(x)."""
    return _without_overflow(_silu, _real("silu", x))


# Bytes from which on a function goes by parts.
_LARGE = 1 << 19
# Arrays, since a number takes 0.5 us more.
_ONE = {char: np.ones((), char) for char in "fd"}


def _sigmoid(x: Array, out: Array | None = None) -> Any:
    return np.reciprocal(_with_one(x, out), out)


def _silu(x: Array, out: Array | None = None) -> Any:
    return np.divide(x, _with_one(x, out), out)


def _with_one(x: Array, out: Array | None) -> Any:
    # Without `out` each step has new memory: over its own operand one of one element takes 1 us more.
    return np.add(np.exp(np.negative(x, out), out), _ONE[x.dtype.char], out)


def _without_overflow(kernel: Any, x: Any) -> Any:
    """Return what `kernel` makes of real numbers; where exp(-x) is infinite, it is 1 over infinity."""
    array = x
    dtype = array.dtype
    if dtype == np.float16:  # would overflow, and be 0, where the result still is a number of that dtype
        return _without_overflow(kernel, x.astype(np.float32)).astype(dtype)
    if not array.ndim:
        return _without_overflow(kernel, array.reshape(1)).reshape(())
    if array.nbytes < _LARGE:
        return kernel(array)
    out = empty(array.shape, dtype, array)
    alone = out.nbytes < 2 * least[np.exp]
    # Alone by parts that stay in a core's cache; for threads, which take turns between them, longer ones.
    split(kernel, (array,), out, alone=alone, at_once=1 << 15 if alone else 1 << 18)
    return out


def softplus(x: Array) -> Any:
    """Return log(1 + exp(x)) without overflow."""
    x = _real("softplus", x)
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def logsigmoid(x: Array) -> Any:
    """Return log(sigmoid(x)) without overflow."""
    x = _real("logsigmoid", x)
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def relu_of(x: Any, out: Array | None = None) -> Any:
    """Return the larger of `x`, an array, and 0; written to `out` if that is given."""
    shape = x.shape
    # NumPy compares with an array many elements at a time, and with a number one by one: 77 us instead of
    # 246 at 64x8096, 3.2 instead of 5.1 at 64x128, 0.5 instead of 0.9 for 100. Each row is a loop of its
    # own: short ones gain nothing.
    if shape and shape[-1] <= _LONGEST_ROW and (shape[-1] >= 64 or len(shape) == 1) and x.dtype.char in "fd":
        zero: Any = _zeros(shape[-1], x.dtype)
    else:
        zero = 0
    return np.maximum(x, zero) if out is None else split_in_place(np.maximum, (x, zero), out)


# Elements: a row of zeros stays in a core's cache.
_LONGEST_ROW = 2**14


@lru_cache(maxsize=16)
def _zeros(n: int, dtype: np.dtype[Any]) -> Array:
    return np.zeros(n, dtype)
