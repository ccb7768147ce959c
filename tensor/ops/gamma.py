"""The logarithm of the gamma function and its derivatives, as methods."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from tensor._errors import InvalidArgumentError
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.kernels import gamma
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


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
        raise InvalidArgumentError(f"polygamma: n is at least 0, not {n}")
    return apply(RULES["polygamma"], lambda a: gamma.polygamma(order, a), (as_tensor(x),), n=order)


class Gamma(TensorCore):
    """The gamma function's family."""

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
