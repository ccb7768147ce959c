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
        """Return another tensor on the same storage: a write to one changes both.

        Disposing one does not affect the other. The memory is freed with the last tensor on the storage.

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
        """Return a tensor with the same values and its own storage. O(1): the first write copies.

        Expanded views, and memory that an exported NumPy array uses, are copied immediately. So is a view
        that covers less than half of its memory: the clone of a row does not keep the batch.

        Gradients flow to the original tensor.

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
        """Move the memory to a new tensor. The next op may write its result to that memory.

        The op reuses the memory if the result has the same shape and dtype, and if no view, alias, clone,
        exported array or derivative uses the memory. If not, the op allocates, and still frees the donated
        memory. The result is the same in both cases. ``memory.statistics()`` counts both cases. This tensor
        can't be used afterwards. The new tensor replaces it in its scope, and has its gradient history.

        Elementwise functions and operators reuse donated memory, and so do ``softmax``, ``cumsum``,
        ``masked_fill`` and similar ops. All other ops free it.

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
