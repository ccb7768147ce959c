"""``torch.special``: aliases of special functions, and functions that are only in this module."""

from __future__ import annotations

import math
from typing import Final

import tensor as tn
from tensor import Tensor
from tensor._dtypes import is_floating, is_inexact
from tensor.ops.gamma import bessel_i
from tensor.ops.gamma import erfcx as _erfcx
from tensor.ops.gamma import log_ndtr as _log_ndtr
from tensor.ops.messages import Operand
from tensor.torch import functions as _functions
from tensor.torch.calling import function, place, with_out
from tensor.torch.composing import polygamma

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]

digamma: Final = _functions.digamma
psi: Final = _functions.digamma
erf: Final = _functions.erf
erfc: Final = _functions.erfc
erfinv: Final = _functions.erfinv
exp2: Final = _functions.exp2
expit: Final = _functions.sigmoid
expm1: Final = _functions.expm1
gammaln: Final = _functions.lgamma
i0: Final = _functions.i0
log1p: Final = _functions.log1p
log_softmax: Final = _functions.log_softmax
logit: Final = _functions.logit
logsumexp: Final = _functions.logsumexp
multigammaln: Final = _functions.mvlgamma
round: Final = _functions.round
sinc: Final = _functions.sinc
softmax: Final = _functions.softmax
xlogy: Final = function(Tensor.xlogy)


@with_out
def entr(input: Tensor) -> Tensor:
    """Return -x log(x), 0 at 0, and -inf below.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.entr(torch.tensor([0.0, 1.0, -1.0])).abs().tolist()
    [0.0, 0.0, inf]
    """
    x = input if is_floating(input.dtype) else input.float()
    positive = x > 0
    found = -x * tn.where(positive, x, 1.0).log()
    return tn.where(x < 0, -math.inf, tn.where(x == 0, 0.0, found))


@with_out
def ndtr(input: Tensor) -> Tensor:
    """Return the standard normal distribution function.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.ndtr(torch.tensor([0.0])).tolist()
    [0.5]
    """
    return (input * -math.sqrt(0.5)).erfc() * 0.5


@with_out
def xlog1py(input: Operand, other: Operand) -> Tensor:
    """Return `input` times log(1 + `other`), and 0 where `input` is 0 and `other` is not nan.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.xlog1py(torch.tensor([0.0]), torch.tensor([-1.0])).tolist()
    [0.0]
    """
    dtype = tn.result_type(input, other)
    if not is_inexact(dtype):
        dtype = tn.float32
    y = other.to(dtype) if isinstance(other, Tensor) else tn.asarray(other, dtype=dtype)
    # Where the logarithm is infinite or undefined, 0 times it would be nan.
    is_replaced = tn.logical_and(tn.equal(input, 0), tn.logical_or(y <= -1, y == math.inf))
    return tn.multiply(input, tn.log1p(tn.where(is_replaced, 0.0, y)))


@with_out
def i0e(input: Tensor) -> Tensor:
    """Return exp(-abs(x)) times the modified Bessel function of the first kind, of order 0.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.i0e(torch.tensor([0.0])).tolist()
    [1.0]
    """
    return bessel_i(0, True, input)


@with_out
def i1(input: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind, of order 1.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.i1(torch.tensor([0.0])).tolist()
    [0.0]
    """
    return bessel_i(1, False, input)


@with_out
def i1e(input: Tensor) -> Tensor:
    """Return exp(-abs(x)) times the modified Bessel function of the first kind, of order 1.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.i1e(torch.tensor([0.0])).tolist()
    [0.0]
    """
    return bessel_i(1, True, input)


@with_out
def erfcx(input: Tensor) -> Tensor:
    """Return exp(x * x) * erfc(x), without overflow or underflow of the factors.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.erfcx(torch.tensor([0.0])).tolist()
    [1.0]
    """
    return _erfcx(input)


@with_out
def log_ndtr(input: Tensor) -> Tensor:
    """Return the logarithm of ``ndtr``, without underflow.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.log_ndtr(torch.tensor([0.0]))
    tensor([-0.6931])
    """
    return _log_ndtr(input)


@with_out
def ndtri(input: Tensor) -> Tensor:
    """Return the inverse of ``ndtr``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.ndtri(torch.tensor([0.5])).tolist()
    [0.0]
    """
    p = input.double()
    with tn.no_grad():
        given = p.detach()
        size = tn.where(given > 0.5, 1 - given, given)
        x = (2 * size - 1).erfinv() * math.sqrt(2)
        # Near 0 the inverse error function loses precision, so refine it by Newton steps on the logarithm.
        tail = (size > 0) & (size < 0.02)
        safe = tn.where(tail, size, 0.01)
        y = -(-2 * safe.log()).sqrt()
        for _ in range(6):
            below = log_ndtr(y)
            y = y - (below - safe.log()) * (below + 0.5 * y.square() + 0.5 * math.log(2 * math.pi)).exp()
        x = tn.where(tail, y, x)
        x = tn.where(given > 0.5, -x, x)
        slope = (0.5 * x.square()).exp() * math.sqrt(2 * math.pi)
    found = tn.where(x.isfinite(), x + (p - given) * slope, x)
    return found.to(input.dtype if is_floating(input.dtype) else tn.float32)


place(globals(), __all__)
