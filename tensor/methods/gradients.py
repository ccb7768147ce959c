"""Gradients: attributes, ``backward`` and hooks.

The functions are in ``tensor/autograd/gradients.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from scopes._shared.tracebacks import clear_library_frames
from scopes.core.scope import footprint_of
from scopes.tracking.memory_owners import TensorClass, note_tensors
from tensor._dtypes import is_inexact
from tensor.autograd.engine import Backward
from tensor.autograd.gradients import add_gradients, backward_from, root_of, take_values
from tensor.core.tensor import TensorCore, relatives
from tensor.memory.buffer import listed_buffers
from tensor.tape.hooks import NodeHooks, RemovableHandle
from tensor.tape.recording import Leaf, Node, become_leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Gradients(TensorCore):
    """Gradients: attributes, ``backward`` and hooks."""

    __slots__ = ()

    # --- Gradients ------------------------------------------------------------------------------------------

    def _keeps(self, seen: set[int]) -> Iterable[tuple[int, int | None]]:
        """Yield pairs (key, bytes) for the memory of the tensor and its graph, and (key, None) for nodes."""
        yield self._footprint()
        nodes: list[Node] = []
        stack = [self._node]
        while stack:
            node = stack.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            if node.is_op and not isinstance(node, Leaf):
                yield id(node), None
            nodes.append(node)
            stack += node.next
            leaf = node.tensor() if isinstance(node, Leaf) else None
            if leaf is not None:
                seen.add(leaf._footprint()[0])
        for node in nodes:
            for share in node.shares():
                yield id(share.buffer), share.buffer.nbytes

    def _last_op(self) -> object:
        """Return the node of the op that computed the tensor, or None for a leaf."""
        return None if isinstance(self._node, Leaf) else self._node

    @property
    def requires_grad(self) -> bool:
        """Whether ops on this tensor are recorded."""
        self._raise_if_disposed()
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Turn recording for this leaf on or off, and return the leaf.

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
            become_leaf(self)
        elif not requires_grad and node is not None:
            if not isinstance(node, Leaf):
                raise RuntimeError(
                    "only leaves can stop requiring gradients: this tensor was computed from others. Use "
                    "x.detach()"
                )
            self._forget_history()
        return self

    def detach_(self) -> Self:
        """Make this tensor a leaf that does not require grad, in place, and return it.

        Raises
        ------
        RuntimeError
            If a view or an alias shares gradient history with the tensor: write ``x = x.detach()``.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True) * 2
        >>> x.detach_().requires_grad
        False
        """
        self._raise_if_disposed()
        if self._node is not None and relatives(self):
            raise RuntimeError(
                "detach_: a view or an alias shares gradient history with this tensor, which would be wrong "
                "after a later write. Write x = x.detach()"
            )
        self._forget_history()
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is not the result of a recorded op."""
        self._raise_if_disposed()
        return self._node is None or isinstance(self._node, Leaf)

    @property
    def grad_fn(self) -> Node | None:
        """The recorded op that computed this tensor, or None for a leaf."""
        self._raise_if_disposed()
        return None if isinstance(self._node, Leaf) else self._node

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward``, or None. This tensor owns it, not a scope.

        A computed tensor only has a gradient after ``retain_grad``.
        """
        self._raise_if_disposed()
        return self._grad

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        self._raise_if_disposed()
        if grad is None:
            self._grad = None
            return
        node = self._node
        if not isinstance(node, Leaf):
            raise RuntimeError(
                "only the gradient of a leaf that requires grad can be set: write x.requires_grad_() first, "
                "or x.detach().requires_grad_() for a computed tensor"
            )
        if not isinstance(grad, TensorCore):
            raise TypeError(f"a gradient must be a tensor or None, not {type(grad).__name__}")
        grad._raise_if_disposed()
        if grad.shape != node.shape or grad.dtype != node.dtype:
            raise ValueError(
                "a gradient must have the shape and dtype of its tensor, "
                f"{node.dtype}{list(node.shape)}, not {grad.dtype}{list(grad.shape)}"
            )
        grad.detach_from_dispose_scope()
        self._grad = grad

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Iterable[Tensor] | None = None,
    ) -> None:
        """Compute the derivative of this tensor with respect to each leaf, and add it to the leaf's ``grad``.

        After an error, the ``grad`` of each leaf without a post-accumulate hook is unchanged.

        Parameters
        ----------
        gradient
            The gradient with respect to this tensor, in its shape; 1 for a tensor of one element.
        retain_graph
            Keep the saved values for a second backward. By default they are freed after use. None: the value
            of `create_graph`.
        create_graph
            Record backward itself, so that the gradients can be differentiated again.
        inputs
            The leaves that get gradients. None: all leaves.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad, if it has more than one element and `gradient` is missing,
            or if the saved values of the graph are already freed.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        try:
            if inputs is not None:
                add_gradients([self], [gradient], retain_graph, create_graph, inputs)
            elif create_graph:
                backward_from([self], [gradient], retain_graph, create_graph)
            else:  # the same, 0.4 us faster
                Backward(bool(retain_graph)).run([root_of(self, gradient)])
        except BaseException as error:
            clear_library_frames(error)
            del self, gradient, inputs  # so that a stored error keeps no graph alive
            raise

    @property
    def data(self) -> Tensor:
        """The same memory without gradient history. Assigning a tensor replaces the values.

        An assigned tensor shares its memory with this one until one of them is written to. A leaf stays a
        leaf, and keeps its gradient if shape and dtype do not change.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
        >>> _ = x.data.mul_(2)
        >>> x.tolist()
        [2.0, 4.0]
        >>> x.data = tensor.zeros((3,))
        >>> x.tolist(), x.requires_grad
        ([0.0, 0.0, 0.0], True)
        """
        this: Any = self
        shared: Tensor = this.detach()
        return shared

    @data.setter
    def data(self, values: Tensor) -> None:
        if not isinstance(values, TensorCore):
            raise TypeError(
                f"x.data takes a tensor, not {type(values).__name__}: write tensor.tensor(values)"
            )
        values._raise_if_disposed()
        self._raise_if_disposed()
        take_values(self, values)

    # --- Hooks ----------------------------------------------------------------------------------------------

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


def _watch(x: TensorCore) -> int | None:
    key, nbytes = footprint_of(x)
    return key if nbytes >= _LEAST_LISTED else None


def _are_alive(keys: list[int]) -> list[bool]:
    alive = set(map(id, listed_buffers()))
    return [key in alive for key in keys]


# Smaller buffers are not listed.
_LEAST_LISTED = 16 * 1024
note_tensors(TensorCore, TensorClass(footprint_of, lambda x: x._grad, _watch, _are_alive, reuses_keys=True))
