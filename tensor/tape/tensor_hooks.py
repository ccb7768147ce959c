"""Methods of tensors that register hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from tensor.core.storage import StorageReference
from tensor.core.tensor import TensorCore
from tensor.tape.hooks import NodeHooks, RemovableHandle
from tensor.tape.nodes import Leaf, Node

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Hooks(TensorCore):
    """Methods that register hooks, and ``retain_grad``."""

    __slots__ = ()

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` in each backward with this tensor's complete gradient.

        If the hook returns a tensor, that replaces the gradient. Hooks are called in the order of their
        registration; on a leaf, before the gradient is added to ``grad``. They belong to the graph, and are
        freed with it. A hook that refers to its own tensor makes a reference cycle. The current scope owns
        `grad`: move it out to keep it longer.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> (x * 2).sum().backward()
        >>> x.grad.tolist()
        [20.0, 20.0]
        """
        return _hooks_of(self, "register_hook").before.register(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(x)`` with this leaf in each backward, after its gradient was added to ``grad``.

        If the hook updates the leaf and frees the gradient, the gradients of all leaves are never in memory
        at once. A leaf with such a hook gets its gradient as soon as it is complete, even if backward fails
        later.

        Raises
        ------
        RuntimeError
            If the tensor is not a leaf that requires grad.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> def update(x):
        ...     with tensor.no_grad():
        ...         x -= 0.1 * x.grad
        ...     x.grad = None
        >>> handle = x.register_post_accumulate_grad_hook(update)
        >>> (x * 2).sum().backward()
        >>> x.grad is None, [round(v, 1) for v in x.tolist()]
        (True, [0.8, 0.8])
        """
        hooks = _hooks_of(self, "register_post_accumulate_grad_hook")
        if not isinstance(self._node, Leaf):
            raise RuntimeError(
                "register_post_accumulate_grad_hook: only leaves accumulate gradients, but this tensor was "
                "computed: use register_hook(), which is called with the gradient"
            )
        return hooks.after.register(hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in ``grad`` after backward, as leaves do.

        It is the gradient after all hooks; a second backward adds its own. For a tensor that was written to,
        it is the gradient of the final values. On a leaf, ``retain_grad`` does nothing.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((1,), requires_grad=True)
        >>> y = x * 3
        >>> y.retain_grad()
        >>> (y * y).backward()
        >>> y.grad.item(), x.grad.item()
        (6.0, 18.0)
        """
        hooks = _hooks_of(self, "retain_grad")
        if not isinstance(self._node, Leaf):
            hooks.keeper = ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad`` was called on this computed tensor."""
        self._raise_if_disposed()
        hooks = None if self._node is None else self._node.hooks
        return hooks is not None and hooks.keeper is not None and hooks.keeper() is self


def keep_retaining(x: StorageReference, node: Node) -> None:
    """Let `node`, the next history of `x`, retain the gradient of `x` if its present history does."""
    hooks = None if x._node is None else x._node.hooks
    if hooks is not None and hooks.keeper is not None and hooks.keeper() is x:
        node.hooks = NodeHooks()
        node.hooks.keeper = ref(x)


def _hooks_of(x: TensorCore, what: str) -> NodeHooks:
    x._raise_if_disposed()
    node = x._node
    if node is None:
        raise RuntimeError(
            f"{what}: this tensor has no gradient history, so backward never computes its gradient. Create "
            "it, or the tensors it is computed from, with requires_grad=True"
        )
    hooks: NodeHooks | None = node.hooks
    if hooks is None:
        hooks = node.hooks = NodeHooks()
    return hooks
