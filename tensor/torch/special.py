"""``torch.special``: PyTorch's second names of special functions, and those that it has only here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import tensor as tn
from tensor import Tensor
from tensor.torch import functions as _functions
from tensor.torch.calling import function, with_out
from tensor.torch.composing import polygamma

if TYPE_CHECKING:
    from tensor.lowlevel import Operand

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
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
    x = input if input.dtype.kind == "f" else input.float()
    positive = x > 0
    found = -x * tn.where(positive, x, 1.0).log()
    return tn.where(x < 0, -math.inf, tn.where(x == 0, 0.0, found))


@with_out
def ndtr(input: Tensor) -> Tensor:
    """Return the probability that a normal number lies below each element.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.ndtr(torch.tensor([0.0])).tolist()
    [0.5]
    """
    return (input * -math.sqrt(0.5)).erfc() * 0.5


@with_out
def xlog1py(input: Operand, other: Operand) -> Tensor:
    """Return `input` times log(1 + `other`), and 0 where `input` is 0.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.special.xlog1py(torch.tensor([0.0]), torch.tensor([-1.0])).tolist()
    [0.0]
    """
    is_zero = tn.logical_and(tn.equal(input, 0), tn.logical_not(tn.isnan(other)))
    return tn.multiply(input, tn.log1p(tn.where(is_zero, 1.0, other)))
