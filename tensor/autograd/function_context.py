"""``ctx``: the context of a user-defined op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensor._dtypes import is_inexact
from tensor.core.storage import relatives, snapshot_share
from tensor.core.tensor import TensorCore
from tensor.memory.buffer import Share
from tensor.ops.messages import require_writable_history
from tensor.tape.nodes import Node

if TYPE_CHECKING:
    from weakref import ref

    from tensor._tensor import Tensor
    from tensor.autograd.function_nodes import Applied


class Saved(NamedTuple):
    """A saved tensor, with its values and history at the time of saving."""

    x: TensorCore
    share: Share
    node: Node | None

    def is_current(self) -> bool:
        """Return whether the tensor still has these values."""
        array = self.x._array
        if array is None:
            return False
        # Values that other code could change were copied when they were saved.
        return array is self.share.array or np.array_equal(array, self.share.array, equal_nan=True)


class Call:
    """One call of a function: its arguments, and the data that its forward pass gave to `ctx`."""

    __slots__ = (
        "dirty",
        "inputs",
        "is_recorded",
        "is_running",
        "materialize",
        "name",
        "node",
        "non_differentiable",
        "saved",
    )

    def __init__(self, name: str, inputs: Sequence[object], is_recorded: bool) -> None:
        self.name: str = name
        self.inputs = [x for x in inputs if isinstance(x, TensorCore)]
        self.is_recorded: bool = is_recorded
        self.is_running = True
        self.dirty: list[TensorCore] = []
        self.non_differentiable: list[TensorCore] = []
        self.saved: list[Saved | None] = []
        self.materialize: bool = True
        # A weak reference, because the node holds the context.
        self.node: ref[Applied] | None = None

    def end_forward(self) -> None:
        """Drop all references to tensors."""
        self.is_running = False
        self.inputs = []
        self.dirty = []
        self.non_differentiable = []
        self.saved = []

    def applied(self) -> Applied:
        """Return the recorded node."""
        node = None if self.node is None else self.node()
        if node is None:
            why = "its graph is gone" if self.node is not None else "it is not recorded"
            raise RuntimeError(
                f"{self.name}: this ctx belongs to a call without history: {why}. Read saved tensors "
                "in backward; to read them elsewhere, keep an output of the call, which keeps the graph alive"
            )
        return node

    def require_writable(self, x: TensorCore, others: Sequence[Any]) -> None:
        """Raise an error if this in-place write to `x` would make another tensor's history wrong."""
        array = x._array
        if self.is_recorded and array is not None and is_inexact(array.dtype):
            require_writable_history(f"{self.name}: mark_dirty", x, others)


def holds(tensors: Sequence[object], x: object) -> bool:
    """Return whether `x` itself is one of `tensors`."""
    # Without a generator, because an interrupt would be lost while it is being closed.
    for one in tensors:  # noqa: SIM110
        if one is x:
            return True
    return False


class FunctionCtx:
    """The context `ctx` of a user-defined op, to pass data from ``forward`` to ``backward``.

    You can set any attribute: ``ctx.n = n``. Pass tensors to ``save_for_backward`` instead, because backward
    does not free attributes, and an output in an attribute makes a reference cycle.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument, whether backward needs its gradient. All are False under ``no_grad``.
    """

    __module__ = "tensor.autograd"

    __slots__ = ("__dict__", "_call", "needs_input_grad")

    def __init__(self, call: Call, needs_input_grad: tuple[bool, ...]) -> None:
        self._call = call
        self.needs_input_grad: tuple[bool, ...] = needs_input_grad

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: object) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save the current values of `tensors` for ``ctx.saved_tensors``. Later writes do not change them.

        The memory is shared, not copied, and the tensors may be disposed afterwards. ``ctx.saved_tensors``
        has the history of arguments and results of forward, if you pass these objects themselves. A second
        call replaces the first one.

        Raises
        ------
        TypeError
            If an argument is neither a tensor nor None.
        RuntimeError
            Outside of forward.

        Examples
        --------
        >>> import tensor
        >>> from tensor import autograd
        >>> class Cube(autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return grad * 3 * x * x
        >>> x = tensor.tensor([2.0], requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad.tolist()
        [12.0]
        """
        call = self._in_forward("save_for_backward")
        _require_tensors(call, "save_for_backward", [x for x in tensors if x is not None])
        for x in tensors:
            if x is not None:
                x._raise_if_disposed()
        if call.is_recorded:
            call.saved = [None if x is None else Saved(x, snapshot_share(x), x._node) for x in tensors]

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark arguments to which forward writes in place. Forward must return each of them.

        Call it before the write, because it raises an error for tensors that must not be written to.

        Raises
        ------
        RuntimeError
            If a tensor is a leaf that requires grad, while gradients are recorded; outside of forward.
        ValueError
            If a tensor is not an argument of forward.

        Examples
        --------
        >>> import tensor
        >>> from tensor import autograd
        >>> class Double(autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.mark_dirty(x)
        ...         return x.mul_(2)
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = tensor.tensor([2.0], requires_grad=True)
        >>> y = x.clone()
        >>> Double.apply(y) is y
        True
        >>> y.backward()
        >>> y.tolist(), x.grad.tolist()
        ([4.0], [2.0])
        """
        call = self._in_forward("mark_dirty")
        _require_tensors(call, "mark_dirty", tensors)
        for x in tensors:
            if not holds(call.inputs, x):
                raise ValueError(
                    f"{call.name}: mark_dirty takes arguments of forward, but this tensor is not one: pass "
                    "the argument itself, and do not mark tensors that forward has created"
                )
            call.require_writable(x, relatives(x))
        call.dirty = list(tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark outputs that have no gradient. Integer and boolean outputs never have one.

        Backward gets zeros for them.

        Raises
        ------
        TypeError
            If an argument is not a tensor.
        RuntimeError
            Outside of forward.

        Examples
        --------
        >>> import tensor
        >>> from tensor import autograd
        >>> class Split(autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         whole = x.floor()
        ...         ctx.mark_non_differentiable(whole)
        ...         return whole, x - whole
        ...
        ...     @staticmethod
        ...     def backward(ctx, _, grad):
        ...         return grad
        >>> whole, rest = Split.apply(tensor.tensor([2.5], requires_grad=True))
        >>> whole.requires_grad, rest.requires_grad
        (False, True)
        """
        call = self._in_forward("mark_non_differentiable")
        _require_tensors(call, "mark_non_differentiable", tensors)
        call.non_differentiable = list(tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward gets zeros (the default) or None for outputs without a gradient.

        Raises
        ------
        RuntimeError
            Outside of forward.

        Examples
        --------
        >>> import tensor
        >>> from tensor import autograd
        >>> class Ends(autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.set_materialize_grads(False)
        ...         return x - 1, x + 1
        ...
        ...     @staticmethod
        ...     def backward(ctx, low, high):
        ...         return low if high is None else high
        >>> x = tensor.ones((1,), requires_grad=True)
        >>> low, high = Ends.apply(x)
        >>> (low * 5).backward()
        >>> x.grad.tolist()
        [5.0]
        """
        self._in_forward("set_materialize_grads").materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved values as new tensors. Arguments and results of forward have their history.

        Raises
        ------
        RuntimeError
            In forward, and after a backward without ``retain_graph``, which frees the values.
        """
        call = self._call
        if call.is_running:
            raise RuntimeError(
                f"{call.name}: ctx.saved_tensors is for backward. In forward use the tensors themselves"
            )
        return call.applied().saved_tensors()

    def _in_forward(self, what: str) -> Call:
        call = self._call
        if not call.is_running:
            raise RuntimeError(
                f"{call.name}: call ctx.{what}() in forward or setup_context, which have ended"
            )
        return call


def _require_tensors(call: Call, what: str, tensors: Sequence[object]) -> None:
    for x in tensors:
        if not isinstance(x, TensorCore):
            raise TypeError(
                f"{call.name}: {what} takes tensors, not {type(x).__name__}. Keep other values as "
                "attributes: ctx.n = n"
            )
