"""Tensors that share memory: alias, clone, detach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._core import TensorCore, wrap
from tensor._derivatives import RULES
from tensor._dispatch import record, view
from tensor._storage import claim_for_tensor, join, share

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Sharing(TensorCore):
    """Methods that return another tensor with the same values."""

    __slots__ = ()

    def alias(self) -> Tensor:
        """Return another tensor on the same storage: each sees the other's writes.

        Disposing one leaves the other whole; the memory goes with the last.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2,))
        >>> y = x.alias()
        >>> x[0] = 3
        >>> x.dispose()
        >>> y.tolist()
        [3.0, 0.0]
        """
        return view(RULES["alias"], lambda array: array.view(), self)

    def clone(self) -> Tensor:
        """Return a tensor with the same values and storage of its own. O(1): the first write copies.

        Two kinds are copied at once: what NumPy arrays outside look at, and expanded views.

        Gradients flow through.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2,))
        >>> y = x.clone()
        >>> x[0] = 3
        >>> y.tolist()
        [0.0, 0.0]
        """
        self._raise_if_disposed()
        array = claim_for_tensor(self)
        return wrap(array, record(RULES["clone"], (self,), array, {}))

    def detach(self) -> Tensor:
        """Return a new leaf on the same storage, without gradient history.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> (x * 2).detach().requires_grad
        False
        """
        self._raise_if_disposed()
        storage = share(self)
        array = self._array
        if array is None:
            self._raise_disposed()
        x = wrap(array.view())
        join(storage, x, family=id(x))
        return x
