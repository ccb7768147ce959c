"""Tensors that share memory: alias, clone, detach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.tensor import TensorCore, detached, donate, wrap_snapshot
from tensor.ops.dispatch import over, with_history
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_ALIAS = RULES["alias"]
_CLONE = RULES["clone"]


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
        array = self._array
        if array is None:
            self._raise_disposed()
        return over(self, array, array, _ALIAS)

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
        return with_history(wrap_snapshot(self), _CLONE, self)

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
        return detached(self)

    def donate(self) -> Tensor:
        """Hand the memory to a new tensor, whose block the next op may use for its result.

        It does if the result has the same shape and dtype, and no view, alias, clone, exported array or
        derivative uses the memory. If not, the op allocates, and still frees the donated memory: there is
        never a wrong result, nor an error. ``memory.statistics()`` counts both. This tensor is empty from now
        on. The new one takes its place in its scope, and its gradient history.

        Elementwise functions and operators use donated memory, and so do ``softmax``, ``cumsum``,
        ``masked_fill`` and their like; the others let it go.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((100, 100))
        >>> before = tensor.memory.statistics()
        >>> y = x.donate() * 2 + 1
        >>> (tensor.memory.statistics() - before).donation_reuse_count
        1
        >>> x.is_invalid
        True
        """
        return donate(self)
