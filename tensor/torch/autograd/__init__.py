"""``torch.autograd``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor
from tensor import autograd as _autograd
from tensor.autograd import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.autograd import function as function
from tensor.torch.autograd import functional as functional

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["Variable"]
__all__ += _autograd.__all__


class _IsTensor(type):
    def __instancecheck__(cls, x: object) -> TypeIs[Tensor]:
        return isinstance(x, Tensor)


class Variable(metaclass=_IsTensor):
    """PyTorch's older name for a tensor. A call returns a new leaf that shares memory with `data`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> x.requires_grad, isinstance(x, torch.autograd.Variable)
    (True, True)
    """

    def __new__(  # type: ignore[misc]  # a tensor, as PyTorch's
        cls, data: Tensor, requires_grad: bool = False, volatile: Any = None
    ) -> Tensor:
        """Return a new leaf."""
        del volatile
        return data.detach().requires_grad_(requires_grad)
