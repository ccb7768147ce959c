"""A call of a user-defined op: its context ``ctx``, and the nodes of the call and of each output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from scopes._shared.naming import set_module
from tensor._dtypes import Dtype, is_inexact
from tensor.autograd.engine import Backward, PendingGradient, put_back, restore
from tensor.autograd.tensor_gradients import fit_tensor
from tensor.core.tensor import TensorCore, relatives, snapshot_share, wrap, wrap_share
from tensor.memory.buffer import Share, zeros
from tensor.ops.messages import require_writable_history
from tensor.tape.hooks import RemovableHandle
from tensor.tape.recording import Node, Rule

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.tape.hooks import Grads

# A plan without saved values and derivatives.
_PLAN = Rule("function", {}).plan(())


# --- The context --------------------------------------------------------------------------------------------


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


@set_module("tensor.autograd")
class FunctionCtx:
    """The context `ctx` of a user-defined op, to pass data from ``forward`` to ``backward``.

    You can set any attribute: ``ctx.n = n``. Pass tensors to ``save_for_backward`` instead, because backward
    does not free attributes, and an output in an attribute makes a reference cycle.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument, whether backward needs its gradient. All are False under ``no_grad``.
    """

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


# --- The nodes ----------------------------------------------------------------------------------------------


class Slot(NamedTuple):
    """The shape and dtype of the gradient of one output."""

    shape: tuple[int, ...]
    dtype: Dtype


def _slot_for(x: Any) -> Slot:
    return Slot(x.shape, x.dtype)


class Applied(Node):
    """The node of a call. Its pending gradient is a list with the gradient of each output, or None.

    Only the nodes of its outputs have a shape and dtype.
    """

    __slots__ = ("are_tensors", "ctx", "function", "outputs", "slots", "sources")

    def __init__(
        self,
        function: type[Any],
        rule: Rule,
        ctx: FunctionCtx,
        inputs: Sequence[object],
        outputs: Sequence[Any],
    ) -> None:
        self.function: type[Any] = function
        self.rule = rule
        self.plan = _PLAN
        self.ctx: FunctionCtx = ctx
        self.are_tensors: list[bool] = [isinstance(x, TensorCore) for x in inputs]
        # None for outputs that are not tensors.
        self.slots: list[Slot | None] = [_slot_for(x) if isinstance(x, TensorCore) else None for x in outputs]
        # Weak references to the nodes of outputs, because those refer to this node.
        self.outputs: list[ref[Output] | None] = [None] * len(self.slots)

    def save(self, tensors: Sequence[Saved | None], sources: Sequence[int | Node | None]) -> None:
        """Save the values of `tensors`. `sources` are their nodes, or the indices of outputs."""
        self.saved = tuple([None if x is None else x.share.array for x in tensors])
        self.holds = tuple([None if x is None else x.share for x in tensors])
        self.sources: Sequence[int | Node | None] = sources

    def name(self) -> str:
        """Return the function's name, as in ``SquareBackward``."""
        return f"{self.function.__name__}Backward"

    def output(self, place: int) -> Output:
        """Return the node of the output at `place`."""
        known = self.outputs[place]
        node = None if known is None else known()
        if node is None:
            node = Output(self, place)
            self.outputs[place] = ref(node)
        return node

    def input_places(self) -> list[int]:
        """Return the indices of the arguments that are tensors."""
        return [i for i, is_tensor in enumerate(self.are_tensors) if is_tensor]

    def count_outputs(self) -> int:
        """Return the number of results of forward."""
        return len(self.slots)

    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """Return new tensors with the saved values and their history."""
        packed = restore(self)  # raises an error if they are freed
        found: list[Tensor | None] = []
        for place, share in enumerate(self.holds):
            x = None if share is None else wrap_share(share)
            if x is not None:
                x._node = self.source_of(place)
            found.append(x)
        put_back(self, packed)
        return tuple(found)

    def source_of(self, place: int) -> Node | None:
        """Return the history of a saved tensor."""
        source = self.sources[place]
        return self.output(source) if isinstance(source, int) else source

    def step(self, pending: PendingGradient, walk: Backward) -> None:
        """Call the user's backward, pass its gradients on, and free the saved values."""
        given: list[Tensor | None] = []
        for place, arrived in enumerate(pending.value):
            given.append(self._given(walk, place, arrived))
        results = self._results(self.function.backward(self.ctx, *given))
        del given
        for i, after in enumerate(self.next):
            # Release each gradient before the next one.
            x, results[i] = results[i], None
            if x is not None and after is not None:
                walk.add(after, fit_tensor(x, after) if walk.is_recorded else x, self, i)
        if not walk.retain_graph and self.saved:
            self.saved: tuple[Any, ...] | None = None
            self.holds = ()

    def _given(self, walk: Backward, place: int, arrived: PendingGradient | None) -> Tensor | None:
        """Return the gradient of one output as a tensor."""
        if arrived is not None:
            return walk.as_tensor(arrived, compact=True)
        slot = self.slots[place]
        if slot is None or not self.ctx._call.materialize:
            return None
        return wrap(zeros(slot.shape, slot.dtype))

    def _results(self, returned: object) -> list[Any]:
        """Return the results of backward as a list, one for each argument. Raise errors for invalid ones."""
        results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        count = len(self.next)
        if all(x is None for x in results[count:]):
            del results[count:]
        if len(results) != count:
            raise RuntimeError(
                f"{self.function.__name__}.backward returned {_counted('gradient', len(results))}, but "
                f"forward takes {_counted('argument', count)}: return a tuple with one for each, or None "
                "where there is no gradient"
            )
        for i, x in enumerate(results):
            if x is not None:
                self._require_gradient(i, x)
        return results

    def _require_gradient(self, i: int, x: object) -> None:
        if not isinstance(x, TensorCore):
            raise TypeError(
                f"{self._gradient_of(i)} must be a tensor or None, not {type(x).__name__}: return a tuple "
                "for several arguments"
            )
        if not self.are_tensors[i]:
            raise TypeError(
                f"{self._gradient_of(i)} is a tensor, but the argument is not a tensor: return None for it"
            )
        after, array = self.next[i], x._live_array()
        if after is None or array.shape == after.shape:
            return
        try:
            fits = np.broadcast_shapes(after.shape, array.shape) == array.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"{self._gradient_of(i)} has shape {array.shape}, but the argument has {after.shape}: return "
                "a gradient of the argument's shape, or of a shape to which that broadcasts"
            )

    def _gradient_of(self, i: int) -> str:
        # With setup_context, forward takes no ctx.
        names = list(inspect.signature(self.function.forward).parameters)
        names = names[-len(self.next) :] if len(names) in (len(self.next), len(self.next) + 1) else []
        named = f" ({names[i]!r})" if names else ""
        return f"{self.function.__name__}.backward: the gradient of argument {i}{named}"


def _counted(what: str, count: int) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


class Output(Node):
    """The node of one output of a call: the history of the tensor."""

    __slots__ = ("applied", "place")

    is_op = False

    def __init__(self, applied: Applied, place: int) -> None:
        slot = applied.slots[place]
        if slot is None:
            raise ValueError("an output that is not a tensor has no history")
        self.rule: Rule = applied.rule
        self.plan = _PLAN
        self.applied: Applied = applied
        self.next: tuple[Applied] = (applied,)
        self.shape: tuple[int, ...]
        self.dtype: Dtype
        self.shape, self.dtype = slot
        self.place: int = place

    def name(self) -> str:
        """Return the name of the call's node."""
        return self.applied.name()

    def register_hook(self, hook: Callable[[Grads, Grads], Any]) -> RemovableHandle:
        """Call `hook` after the call is evaluated, with the gradients of all its arguments and outputs."""
        return self.applied.register_hook(hook)

    def register_prehook(self, hook: Callable[[Grads], Any]) -> RemovableHandle:
        """Call `hook` before the call is evaluated, with the gradients of all its outputs."""
        return self.applied.register_prehook(hook)

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the arguments that are tensors."""
        return self.applied.next_functions

    def step(self, pending: PendingGradient, walk: Backward) -> None:
        """Store the gradient of this output in the pending gradient of the call."""
        walk.put(self.applied, self.place, len(self.applied.slots), pending)


class Refusal(Node):
    """The history of a gradient that can't be differentiated again, with edges to the inputs of backward."""

    __slots__ = ("of",)

    def __init__(
        self, of: Applied, after: tuple[Node | None, ...], shape: tuple[int, ...], dtype: Dtype
    ) -> None:
        self.of: str = of.function.__name__
        self.rule: Rule = of.rule
        self.plan = _PLAN
        self.next = after
        self.shape = shape
        self.dtype = dtype

    def name(self) -> str:
        """Return the name of the op that can only be differentiated once."""
        return f"{self.of}BackwardBackward"

    def step(self, _pending: PendingGradient, _walk: Backward) -> None:
        """Raise an error."""
        raise RuntimeError(
            f"{self.of}.backward is marked @once_differentiable, so its gradients can't be differentiated. "
            "Omit create_graph=True, or write backward with tensor functions only and remove the mark"
        )
