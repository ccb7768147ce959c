"""Special functions: the gamma function with its derivatives, Bessel functions, erfcx and log_ndtr."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from scopes.lowlevel import ModuleOnDemand
from tensor._errors import InvalidArgumentError
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.ops.in_place import with_in_place
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


@with_in_place("lgamma i0 digamma polygamma")
class Gamma(TensorCore):
    """The gamma function and its derivatives, and the Bessel function I0."""

    __slots__ = ()

    @composite
    def lgamma(self) -> Tensor:
        """Return the logarithm of the absolute value of the gamma function.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0]).lgamma().tolist()
        [0.0, 0.0]
        """
        return apply(RULES["lgamma"], gamma.lgamma, (self,))

    @composite
    def digamma(self) -> Tensor:
        """Return the derivative of ``lgamma``.

        Examples
        --------
        >>> import tensor
        >>> f"{tensor.tensor([1.0]).digamma().item():.4f}"
        '-0.5772'
        """
        return polygamma(0, as_tensor(self))

    @composite
    def polygamma(self, n: int) -> Tensor:
        """Return the `n`-th derivative of digamma.

        Examples
        --------
        >>> import tensor
        >>> round(tensor.tensor([1.0]).polygamma(1).item(), 4)
        1.6449
        """
        return polygamma(n, as_tensor(self))

    @composite
    def i0(self) -> Tensor:
        """Return the modified Bessel function of the first kind, of order 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).i0().tolist()
        [1.0]
        """
        return bessel_i(0, False, as_tensor(self))
