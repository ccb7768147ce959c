"""Functions that NumPy lacks: erf and its kin, sigmoid, softplus and others, without overflow and warnings.

They take arrays of any dtype. Those of float32 and float64 go to the compiled kernels, also where they are
not contiguous; half precision and integers are computed in a float dtype that holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels import arithmetic, exponentials, gaussian

if TYPE_CHECKING:
    from tensor._dtypes import Array
    from tensor.kernels.elementwise import UnaryKernel


def floating(x: Any) -> Any:
    """Return `x` where it is inexact, integers and bools in the floating dtype that holds them."""
    array: Any = x if type(x) is np.ndarray else np.asarray(x)
    return array if array.dtype.kind in "fc" else array.astype(np.result_type(array.dtype, np.float32))


def _real(name: str, x: Any) -> Any:
    array = floating(x)
    if array.dtype.kind == "c":
        raise TypeError(f"{name} is defined for real tensors only: take x.real or x.abs() first")
    return array


def _applied(kernel: UnaryKernel, x: Array) -> Any:
    """Return what `kernel` makes of real floats."""
    dtype = x.dtype
    wanted = np.float64 if dtype.itemsize > 4 else np.float32
    # In memory of its own, one element after the other, in native order: what the kernel is for.
    if dtype != wanted or not dtype.isnative or not (x.flags.forc and x.flags.aligned):
        x = np.array(x, wanted, order="C")
    out = kernel(x)
    return out if out.dtype == dtype else out.astype(dtype)


def erf(x: Array) -> Any:
    """Return 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to `x`."""
    return _applied(gaussian.erf, _real("the error function", x))


def erfc(x: Array) -> Any:
    """Return 1 - erf(x), with its digits for large `x`."""
    return _applied(gaussian.erfc, _real("the error function", x))


def gelu(x: Array) -> Any:
    """Return x times the normal distribution's function at `x`."""
    return _applied(gaussian.gelu, _real("gelu", x))


def gelu_by_tanh(x: Array) -> Any:
    """Return the approximation of `gelu` by a hyperbolic tangent."""
    return _applied(gaussian.gelu_by_tanh, _real("gelu", x))


def sigmoid(x: Array) -> Any:
    """Return 1 / (1 + exp(-x)), with full relative precision for negative `x`."""
    x = floating(x)
    if x.dtype.kind == "c":
        return np.reciprocal(np.exp(-x) + 1)
    return _applied(exponentials.sigmoid, x)


def silu(x: Array) -> Any:
    """Return x * sigmoid(x)."""
    return _applied(exponentials.silu, _real("silu", x))


def softplus(x: Array) -> Any:
    """Return log(1 + exp(x)) without overflow."""
    return _applied(exponentials.softplus, _real("softplus", x))


def logsigmoid(x: Array) -> Any:
    """Return log(sigmoid(x)) without overflow."""
    return _applied(exponentials.logsigmoid, _real("logsigmoid", x))


def relu_of(x: Any, out: Array | None = None) -> Any:
    """Return the larger of `x`, an array, and 0; written to `out` if that is given."""
    return arithmetic.relu(x, out)
