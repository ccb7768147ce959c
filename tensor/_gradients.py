"""What a tensor says about gradients, and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from tensor._backward import run_backward
from tensor._core import TensorCore
from tensor._dtypes import is_inexact
from tensor._graph import Leaf, Node
from tensor._storage import Array, claim

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Gradients(TensorCore):
    """Gradient attributes and ``backward``."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        self._raise_if_disposed()
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Switch recording for this leaf on or off, and return it.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).requires_grad_().requires_grad
        True
        """
        self._raise_if_disposed()
        array, node = self._array, self._node
        if requires_grad and node is None and array is not None:
            if not is_inexact(array.dtype):
                raise TypeError(
                    f"a tensor of {array.dtype} can't require gradients: only floating and complex ones can. "
                    "Convert it first: x.float()"
                )
            self._node = Leaf(array.shape, array.dtype)
        elif not requires_grad and node is not None:
            if not isinstance(node, Leaf):
                raise RuntimeError(
                    "only leaves can stop requiring gradients: this tensor was computed from others. Use "
                    "x.detach()"
                )
            node.close()
            self._node = None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than recorded as an op's result."""
        self._raise_if_disposed()
        return self._node is None or isinstance(self._node, Leaf)

    @property
    def grad_fn(self) -> Node | None:
        """The recorded op that made this tensor; None for a leaf."""
        self._raise_if_disposed()
        return None if isinstance(self._node, Leaf) else self._node

    @property
    def grad(self) -> Tensor | None:
        """The gradient gathered by ``backward``: owned by this tensor, by no scope; None before."""
        self._raise_if_disposed()
        node = self._node
        return node.grad if isinstance(node, Leaf) else None  # type: ignore[return-value]  # every core is a Tensor

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        self._raise_if_disposed()
        node = self._node
        if not isinstance(node, Leaf):
            raise RuntimeError(
                "only a leaf that requires grad has a gradient to set: call x.requires_grad_() first, or "
                "detach it"
            )
        if grad is not None:
            if not isinstance(grad, TensorCore):
                raise TypeError(f"a gradient is a tensor or None, not {type(grad).__name__}")
            grad._raise_if_disposed()
            if grad.shape != node.shape or grad.dtype != node.dtype:
                raise ValueError(
                    f"a gradient has the shape and dtype of its tensor, {node.dtype}{list(node.shape)}, not "
                    f"{grad.dtype}{list(grad.shape)}"
                )
            grad.detach_from_dispose_scope()
        node.grad = grad

    def backward(self, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
        """Add to the ``grad`` of each leaf the derivative of this tensor by that leaf.

        Parameters
        ----------
        gradient
            The derivative of what is wanted by this tensor, in its shape; 1 for a tensor of one element.
        retain_graph
            Keep the saved values for a second backward. Without it they are freed as they are used.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad, if it has more than one element and `gradient` is missing,
            or if the graph's values are freed already.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        run_backward([root_of(self, gradient)], retain_graph=retain_graph)


def root_of(output: TensorCore, gradient: TensorCore | None) -> tuple[Node, Array]:
    """Return where backward starts for `output`, and with what gradient; errors say what is missing."""
    if not isinstance(output, TensorCore):
        raise TypeError(
            f"backward starts at a tensor, not {type(output).__name__}: use the tensor that the loss "
            "function "
            "returned, before .item()"
        )
    output._raise_if_disposed()
    node, array = output._node, output._array
    if node is None or array is None:
        raise RuntimeError(
            "this tensor has no gradient history: no input of its computation required grad, or it was "
            "computed "
            "under no_grad(). Make the inputs with requires_grad=True"
        )
    if gradient is None:
        if array.size != 1:
            raise RuntimeError(
                f"backward without a gradient starts at one element, not at shape {array.shape}: reduce "
                "the tensor "
                "first (loss.mean(), loss.sum()), or pass backward(gradient=...) in its shape"
            )
        return node, np.ones(node.shape, node.dtype)
    if not isinstance(gradient, TensorCore):
        raise TypeError(
            f"gradient must be a tensor, not {type(gradient).__name__}: write tensor.tensor(gradient)"
        )
    gradient._raise_if_disposed()
    given = claim(gradient)
    if given.shape != node.shape:
        raise ValueError(
            f"the gradient of a tensor of shape {node.shape} has that shape, not {given.shape}: pass "
            "gradient=tensor.ones(x.shape) or the like"
        )
    return node, given.astype(node.dtype, copy=False)
