"""Special functions: the gamma function with its derivatives, Bessel functions, erfcx and log_ndtr."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from scopes._shared.on_demand import ModuleOnDemand
from tensor._errors import InvalidArgumentError
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.kernels import bessel, gamma, scaled_erfc
else:
    bessel = ModuleOnDemand("tensor.kernels.bessel")
    gamma = ModuleOnDemand("tensor.kernels.gamma")
    scaled_erfc = ModuleOnDemand("tensor.kernels.scaled_erfc")


def polygamma(n: int, x: Tensor) -> Tensor:
    """Return the `n`-th derivative of digamma at `x`.

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.gamma import polygamma
    >>> round(polygamma(1, tensor.tensor([1.0])).item(), 4)
    1.6449
    """
    order = index(n)
    if order < 0:
        raise InvalidArgumentError(f"polygamma: n must be at least 0, not {n}")
    return apply(RULES["polygamma"], lambda a: gamma.polygamma(order, a), (as_tensor(x),), n=order)


def bessel_i(order: int, is_scaled: bool, x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind, of order 0 or 1, at `x`.

    With `is_scaled`, it is multiplied by exp(-abs(x)).

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.gamma import bessel_i
    >>> bessel_i(1, True, tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return apply(
        RULES["bessel_i"],
        lambda a: bessel.bessel_i(order, is_scaled, a),
        (x,),
        order=order,
        is_scaled=is_scaled,
    )


def erfcx(x: Tensor) -> Tensor:
    """Return exp(x * x) * erfc(x), without overflow or underflow of the factors.

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.gamma import erfcx
    >>> erfcx(tensor.tensor([0.0])).tolist()
    [1.0]
    """
    return apply(RULES["erfcx"], scaled_erfc.erfcx, (x,))


def log_ndtr(x: Tensor) -> Tensor:
    """Return the logarithm of the normal distribution function at `x`, without underflow.

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.gamma import log_ndtr
    >>> round(log_ndtr(tensor.tensor([0.0])).item(), 4)
    -0.6931
    """
    return apply(RULES["log_ndtr"], scaled_erfc.log_ndtr, (x,))
