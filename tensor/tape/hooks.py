"""Hooks of nodes: functions that backward calls with gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import ref

from tensor.core.tensor import StorageReference, TensorCore, wrap_snapshot_unowned

if TYPE_CHECKING:
    from tensor._dtypes import Dtype
    from tensor._tensor import Tensor

    # The gradients of the inputs or outputs of a node.
    Grads = tuple[Tensor | None, ...]

_keys = count()


class HookTable(dict[int, "Callable[..., Any]"]):
    """Hooks in the order of their calls, each with the key that removes it."""

    __slots__ = ("__weakref__",)

    def register(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Add `hook` at the end."""
        if not callable(hook):
            raise TypeError(f"a hook must be a function, not {type(hook).__name__}")
        handle = RemovableHandle(self)
        self[handle.key] = hook
        return handle


class RemovableHandle:
    """Removes a hook: by ``remove()`` or at the end of a ``with`` block.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((1,), requires_grad=True)
    >>> with x.register_hook(lambda grad: grad * 2):
    ...     x.backward()
    >>> x.backward()
    >>> x.grad.item()
    3.0
    """

    __slots__ = ("_table", "key")

    def __init__(self, table: HookTable) -> None:
        self._table = ref(table)
        self.key: int = next(_keys)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        table = self._table()
        if table is not None:
            table.pop(self.key, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class _Recorded(Protocol):
    """The node of a recorded tensor."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Dtype: ...


class NodeHooks:
    """The hooks of a node, and of the tensor with this history."""

    __slots__ = ("after", "before", "keeper", "posthooks", "prehooks")

    def __init__(self) -> None:
        # Hooks of the tensor, to call with its gradient, before it is used.
        self.before: HookTable = HookTable()
        # Hooks to call with the leaf, after its gradient was accumulated.
        self.after: HookTable = HookTable()
        # The tensor with `retain_grad()`, which is no leaf.
        self.keeper: ref[StorageReference] | None = None
        # Hooks of the node, to call with the gradients of its outputs, before it is evaluated.
        self.prehooks: HookTable = HookTable()
        # Hooks of the node, to call with the gradients of its inputs and of its outputs.
        self.posthooks: HookTable = HookTable()

    @property
    def are_on_node(self) -> bool:
        """Whether the node itself has hooks."""
        return bool(self.prehooks or self.posthooks)

    def pass_through(self, node: _Recorded, g: Tensor) -> Tensor:
        """Return the gradient `g` after all hooks of the tensor, and store it in the one that retains it."""
        for hook in list(self.before.values()):
            given = hook(g)
            g = _checked(node, g if given is None else given)
        x = None if self.keeper is None else self.keeper()
        if x is not None and x._node is node:
            total = g if x._grad is None else x._grad + g
            kept = wrap_snapshot_unowned(total)
            kept._node = total._node
            x._grad = kept
        return g

    def before_node(self, outputs: Grads) -> Grads:
        """Return the gradients of the outputs of a node after its prehooks."""
        for hook in list(self.prehooks.values()):
            given = hook(outputs)
            if given is not None:
                outputs = _checked_tuple(hook, outputs, given)
        return outputs

    def after_node(self, inputs: Grads, outputs: Grads) -> Grads:
        """Return the gradients of the inputs of a node after its hooks."""
        for hook in list(self.posthooks.values()):
            given = hook(inputs, outputs)
            if given is not None:
                inputs = _checked_tuple(hook, inputs, given)
        return inputs


def _checked(node: _Recorded, given: object) -> Tensor:
    if not isinstance(given, TensorCore):
        raise TypeError(
            f"a hook must return None, or a tensor as the new gradient, not {type(given).__name__}"
        )
    array = given._array
    if array is None:
        given._raise_disposed()
    if array.shape != node.shape or array.dtype != node.dtype:
        raise ValueError(
            f"a hook returned a gradient of {array.dtype}{list(array.shape)}, but the tensor is "
            f"{node.dtype}{list(node.shape)}: return a gradient with that shape and dtype"
        )
    return given  # type: ignore[return-value]  # every instance is a Tensor


def _checked_tuple(hook: Callable[..., Any], before: Grads, given: object) -> Grads:
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(given, tuple):
        raise TypeError(
            f"expected tuple, but hook {name!r} returned {type(given).__name__!r}: return None, or a tuple "
            f"with a gradient or None for each of the {len(before)}"
        )
    if len(given) != len(before):
        raise RuntimeError(
            f"hook {name!r} has returned an incorrect number of values (got {len(given)}, but expected "
            f"{len(before)}): return a gradient or None for each"
        )
    for i, (x, old) in enumerate(zip(given, before, strict=True)):
        if x is None:
            continue
        if old is None:
            raise RuntimeError(
                f"hook {name!r} can't replace a None gradient with a non-None value: there is no gradient "
                f"number {i}"
            )
        if not isinstance(x, TensorCore):
            raise TypeError(
                f"expected Tensor, but hook {name!r} returned {type(x).__name__!r} as gradient number {i}"
            )
        new, known = x._live_array(), old._live_array()
        if new.shape != known.shape or new.dtype != known.dtype:
            raise RuntimeError(
                f"hook {name!r} has changed the {'type' if new.dtype != known.dtype else 'size'} of gradient "
                f"number {i} from {known.dtype}{list(known.shape)} to {new.dtype}{list(new.shape)}: return a "
                "gradient with the same shape and dtype"
            )
    return given
