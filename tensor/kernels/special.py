"""Functions that NumPy lacks: erf, sigmoid, softplus and others, without overflow and warnings.

They support arrays of any dtype. float32 and float64 arrays use the compiled kernels, even if they are not
contiguous. Half precision and integers are computed in float32 or float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensor._dtypes import Array
from tensor.kernels import elementwise as kernels
from tensor.kernels.elementwise import UnaryKernel

# M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37
# (1988). Quotients of polynomials, with errors of 1e-16. The argument is 0.180625 - (x/2)**2 if that is at
# least 0 (_CENTRE), else r - 1.6 with r = sqrt(-log((1 - |x|) / 2)) (_NEAR), or r - 5 if that is positive
# (_FAR). The highest power comes first.
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


def floating(x: Any) -> Any:
    """Return `x` if it is inexact. Convert integers and bools to float32, the default dtype."""
    array: Any = x if type(x) is np.ndarray else np.asarray(x)
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


def _real(name: str, x: Any) -> Any:
    array = floating(x)
    if array.dtype.kind == "c":
        raise TypeError(f"{name} is defined for real tensors only: take x.real or x.abs() first")
    return array


def _applied(kernel: UnaryKernel, x: Array) -> Any:
    """Return the result of `kernel` for real floats."""
    dtype = x.dtype
    wanted = np.float64 if dtype.itemsize > 4 else np.float32
    # The kernel supports contiguous, aligned arrays in native byte order.
    if dtype != wanted or not dtype.isnative or not (x.flags.forc and x.flags.aligned):
        x = np.array(x, wanted, order="C")
    out = kernel(x)
    return out if out.dtype == dtype else out.astype(dtype)


def erf(x: Array) -> Any:
    """Return 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to `x`."""
    return _applied(kernels.erf, _real("the error function", x))


def erfc(x: Array) -> Any:
    """Return 1 - erf(x), precise for large `x`."""
    return _applied(kernels.erfc, _real("the error function", x))


def erfinv(x: Array) -> Any:
    """Return y with erf(y) = `x`. It is infinite at -1 and 1, and nan beyond."""
    x = _real("the error function", x)
    out: Array = _erfinv64(np.atleast_1d(x).astype(np.float64)).astype(x.dtype)
    return out.reshape(x.shape)


def _erfinv64(x: Array) -> Any:
    y = np.abs(x)
    centre = 0.180625 - 0.25 * np.square(np.minimum(y, 0.85))
    inner = (0.5 * _ROOT_HALF) * y * (_polynomial(centre, _CENTRE_P) / _polynomial(centre, _CENTRE_Q))
    # Limit r to 40, which is more than r of any number below 1. For 1, the polynomials would give inf / inf.
    r = np.minimum(np.sqrt(-np.log(0.5 * (1 - y))), 40.0)
    near = _polynomial(r - 1.6, _NEAR_P) / _polynomial(r - 1.6, _NEAR_Q)
    far = _polynomial(r - 5, _FAR_P) / _polynomial(r - 5, _FAR_Q)
    outer = np.where(r == 40, np.inf, np.where(r <= 5, near, far) * _ROOT_HALF)
    found = np.where(y <= 0.85, inner, outer)
    # A Newton step halves the error of the last digits. From y = 1/2 on, 1 - y is exact.
    error = np.where(y < 0.5, y - _applied(kernels.erf, found), _applied(kernels.erfc, found) - (1 - y))
    step = error * (0.5 * math.sqrt(math.pi)) * np.exp(np.square(found))
    return np.copysign(np.where(np.isfinite(step), found + step, found), x)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    out = np.multiply(x, coefficients[0])
    for c in coefficients[1:-1]:
        out += c
        out *= x
    out += coefficients[-1]
    return out


def gelu(x: Array) -> Any:
    """Return x times the normal distribution function at `x`."""
    return _applied(kernels.gelu, _real("gelu", x))


def gelu_by_tanh(x: Array) -> Any:
    """Return the approximation of `gelu` with tanh."""
    return _applied(kernels.gelu_by_tanh, _real("gelu", x))


def sigmoid(x: Array) -> Any:
    """Return 1 / (1 + exp(-x)), with full relative precision for negative `x`."""
    x = floating(x)
    if x.dtype.kind == "c":
        return np.reciprocal(np.exp(-x) + 1)
    return _applied(kernels.sigmoid, x)


def silu(x: Array) -> Any:
    """Return x * sigmoid(x)."""
    return _applied(kernels.silu, _real("silu", x))


def softplus(x: Array) -> Any:
    """Return log(1 + exp(x)) without overflow."""
    return _applied(kernels.softplus, _real("softplus", x))


def logsigmoid(x: Array) -> Any:
    """Return log(sigmoid(x)) without overflow."""
    return _applied(kernels.logsigmoid, _real("logsigmoid", x))


def relu_of(x: Any, out: Array | None = None) -> Any:
    """Return the maximum of the array `x` and 0. Write it to `out` if given."""
    return kernels.relu(x, out)
