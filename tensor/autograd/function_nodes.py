"""The nodes of a user-defined op: one for the call, and one for each output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from tensor._dtypes import Dtype
from tensor.autograd.engine import Backward, put_back, restore
from tensor.autograd.pending_gradients import PendingGradient
from tensor.autograd.tensor_gradients import fit_tensor
from tensor.core.tensor import TensorCore, wrap, wrap_share
from tensor.memory.buffer import zeros
from tensor.tape.hooks import RemovableHandle
from tensor.tape.nodes import Node, Rule

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.autograd.function_context import FunctionCtx, Saved
    from tensor.tape.hooks import Grads

# A plan without saved values and derivatives.
_PLAN = Rule("function", {}).plan(())


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
