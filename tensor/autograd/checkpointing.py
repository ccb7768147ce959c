"""Checkpoints: free the saved values of a part of the forward pass, and compute them again in backward.

The nodes of the part are recorded as usual, so gradients, hooks and errors do not change. But these *waiting*
nodes refer to a `Segment`, which keeps the inputs of the part, instead of saved values. When the function
runs again, it records the same ops in the same order, and their saved values are moved to the waiting nodes.

A checkpoint inside a checkpoint does nothing in the first run, when its nodes belong to the outer checkpoint.
In the second run it is a normal checkpoint. So of nested checkpoints, only the innermost checkpoint that
backward has reached has saved values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar, cast
from weakref import ref

from scopes import new_dispose_scope
from tensor.autograd.nesting import map_nested
from tensor.autograd.saved_tensors import PackedTensor, active_hooks
from tensor.core.tensor import (
    TensorCore,
    history_group_of,
    join_storage,
    on_same_storage,
    snapshot_share,
    wrap_share,
)
from tensor.creation.generators import default_generator
from tensor.memory.buffer import Share
from tensor.tape.modes import (
    GradMode,
    Recorder,
    Recording,
    grad_enabled,
    innermost_recorder,
    is_recording,
    recomputing,
    when_enabled,
)
from tensor.tape.recording import Deferred, Leaf, Node, become_leaf
from tensor.tape.rules import RULES

P = ParamSpec("P")
R = TypeVar("R")


# Returns the contexts of the first and of the later runs of a checkpoint's function.
ContextFn = Callable[[], "tuple[AbstractContextManager[Any], AbstractContextManager[Any]]"]


def checkpoint(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return ``function(*args, **kwargs)``. Free the saved values of its ops; backward computes them again.

    This saves memory, but takes more time: only the tensors among the arguments are kept (shared, and copied
    if they are written to), and backward runs `function` again, with the same random numbers. The gradients
    have the same bits.

    Parameters
    ----------
    function
        It runs twice, and must do the same the second time. Other tensors that it uses, such as a module's
        parameters, must not change in between. The running statistics of ``batch_norm`` are updated once.
    *args, **kwargs
        The arguments of `function`. Tensors may be in lists, tuples and dicts. PyTorch's ``use_reentrant`` is
        accepted and ignored, because there is only one kind of checkpoint. ``context_fn`` is PyTorch's too: a
        function that returns two context managers, for the forward pass and for the second run.

    Raises
    ------
    RuntimeError
        In backward, if `function` records different ops the second time. Backward also raises errors of
        `function` itself, with a note.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.ones((1000,), requires_grad=True)
    >>> y = autograd.checkpoint(lambda x: (x * 0).cos().exp(), x)  # saves x, instead of three results
    >>> y.sum().backward()
    >>> x.grad.abs().sum().item()
    0.0
    """
    kwargs.pop("use_reentrant", None)
    context_fn: Any = kwargs.pop("context_fn", None)
    return checkpoint_in(context_fn, function, args, kwargs)


def checkpoint_in(
    context_fn: ContextFn | None, function: Callable[..., R], args: Any, kwargs: Mapping[str, Any]
) -> R:
    """Return ``function(*args, **kwargs)`` in a checkpoint, each run in a context of `context_fn`."""
    first: AbstractContextManager[Any]
    again: AbstractContextManager[Any]
    first, again = (nullcontext(), nullcontext()) if context_fn is None else _contexts(context_fn)
    if not is_recording() or _is_in_first_run():
        return _run_in(first, function, args, kwargs)
    segment = Segment(function, args, kwargs, again)
    with Recording(_FirstRun(segment)):
        result = _run_in(first, function, args, kwargs)
    segment.end()
    return result


def _run_in(
    context: AbstractContextManager[Any], function: Callable[..., R], args: Any, kwargs: Mapping[str, Any]
) -> R:
    with context:
        return function(*args, **kwargs)
    raise RuntimeError(
        "checkpoint: the forward context of context_fn suppressed an exception of the function, so there is "
        "no result. Let the context raise it"
    )


def _contexts(context_fn: ContextFn) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    if not callable(context_fn):
        raise TypeError(
            f"checkpoint: context_fn must be a function, not {type(context_fn).__name__}: pass a function "
            "that returns two context managers"
        )
    given: Any = context_fn()
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(
            "checkpoint: context_fn must return two context managers, for the forward pass and for the "
            f"second run, not {type(given).__name__}"
        )
    for context in given:
        if not hasattr(context, "__enter__") or not hasattr(context, "__exit__"):
            raise TypeError(
                f"checkpoint: context_fn returned {type(context).__name__!r}, which is not a context manager"
            )
    return given[0], given[1]


class Segment(Deferred):
    """A part of the forward pass that can run again: its function, inputs and random state."""

    __slots__ = (
        "context",
        "function",
        "inputs",
        "is_complete",
        "nodes",
        "random_end",
        "random_state",
        "rules",
    )

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, context: AbstractContextManager[Any]
    ) -> None:
        self.function: Callable[..., Any] = function
        # The context in which the function runs again.
        self.context: AbstractContextManager[Any] = context
        self.inputs: Any = _kept((args, kwargs))
        self.random_state: dict[str, Any] = default_generator.get_state()
        self.nodes: list[ref[Node]] = []
        self.rules: list[Any] = []
        # False during the first run of the function.
        self.is_complete = False
        self.random_end: dict[str, Any] = {}

    def end(self) -> None:
        """Record the end of the first run."""
        self.random_end = default_generator.get_state()
        self.is_complete = True

    def add(self, node: Node) -> None:
        """Replace the saved values of `node` by this segment."""
        node.saved = self
        node.holds = ()
        node.plan = node.plan.without_saves()
        self.nodes.append(ref(node))
        self.rules.append(node.rule)

    def restore(self, node: Node) -> None:
        """Run the function again, and set the saved values of all waiting nodes."""
        # In a new context, so that modes which the function sets end with it, even after an interrupt.
        made = copy_context().run(self._run_again)
        rules = [each.rule for each in made]
        if rules[: None if self.is_complete else len(self.rules)] != self.rules:
            raise RuntimeError(
                f"{node.name()}: the function of this checkpoint recorded {len(self.rules)} ops in the "
                f"forward pass, but now {_difference(self.rules, rules)}. It must do the same each "
                "time, and not depend on anything that changes in between, such as a counter"
            )
        given: dict[Node, ref[Node]] = {}
        for waiting, each in zip(self.nodes, made, strict=False):
            target = waiting()
            if target is not None and target.saved is self:
                target.plan, target.saved, target.holds = each.plan, each.saved, each.holds
                given[each] = waiting
        for inner in {each.saved for each in given if isinstance(each.saved, Segment)}:
            inner._wait_in(given)

    def _run_again(self) -> list[Node]:
        """Return the nodes that the function records in its second run."""
        stream = default_generator.get_state()
        try:
            recomputing.set(recomputing.get() + 1)
            default_generator.set_state(self.random_state)
            again = _SecondRun()
            grad_enabled.set(again)
            when_enabled.set(again)
            with new_dispose_scope("checkpoint"):
                args, kwargs = _given(self.inputs)
                with self.context:
                    self.function(*args, **kwargs)
            self._require_the_same_draws(default_generator.get_state())
            return again.nodes
        except Exception as error:
            error.add_note(
                "Raised when backward ran the function of a checkpoint again, to compute its saved values. "
                "All that it uses must be the same as in the forward pass"
            )
            raise
        finally:
            default_generator.set_state(stream)

    def _require_the_same_draws(self, random_end: dict[str, Any]) -> None:
        """Raise an error if the second run drew different random numbers."""
        if self.is_complete and random_end not in (self.random_state, self.random_end):
            raise RuntimeError(
                "the function of this checkpoint drew other random numbers than in the forward pass: it "
                "drew more or fewer, or another thread drew from the default generator meanwhile. It must do "
                "the same each time; let other threads use their own tensor.Generator()"
            )

    def _wait_in(self, others: dict[Node, ref[Node]]) -> None:
        """Replace the nodes of this segment by the waiting nodes that take over their values."""
        nodes = [waiting() for waiting in self.nodes]
        self.nodes = [
            waiting if node is None else others.get(node, waiting)
            for node, waiting in zip(nodes, self.nodes, strict=True)
        ]

    def shares(self) -> list[Share]:
        """Return the shares of the arrays kept for the second run."""
        return [kept.share for kept in _all_kept(self.inputs) if kept.share is not None]


def _difference(before: list[Any], now: list[Any]) -> str:
    for i, (rule, other) in enumerate(zip(before, now, strict=False)):
        if rule is not other:
            return f"{other.name!r} instead of {rule.name!r} as number {i}"
    return f"{len(now)}"


class _FirstRun(Recorder):
    """Adds each recorded node to a segment, and drops its saved values."""

    __slots__ = ("depth", "segment")

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.segment = segment
        # Nodes of a nested second run have another depth, and do not belong to this segment.
        self.depth = recomputing.get()

    def record(self, node: Node) -> None:
        if recomputing.get() == self.depth:
            self.segment.add(node)
        super().record(node)


class _SecondRun(Recorder):
    """Collects the recorded nodes."""

    __slots__ = ("depth", "nodes")

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.depth = recomputing.get()

    def record(self, node: Node) -> None:
        if recomputing.get() == self.depth:
            self.nodes.append(node)
        super().record(node)


def _is_in_first_run() -> bool:
    """Return whether recorded nodes belong to a checkpoint already."""
    depth, recorder = recomputing.get(), innermost_recorder()
    while recorder is not None:
        if isinstance(recorder, _FirstRun) and recorder.depth == depth:
            return True
        recorder = recorder.outer
    return False


def is_recomputing() -> bool:
    """Return whether a checkpoint's function runs for the second time. Side effects must not repeat then."""
    return recomputing.get() > 0


class _SavedArgument:
    """The values of a tensor argument, protected from later writes, or what a pack hook returned for them."""

    __slots__ = ("history_group", "is_leaf", "packed", "requires_grad", "share", "storage")

    def __init__(self, x: TensorCore, storage: _SavedArgument | None) -> None:
        self.share: Share | None = snapshot_share(x)
        self.packed: PackedTensor | None = None
        hooks = active_hooks()
        if hooks is not None and hooks.pack is not None:
            self.packed = PackedTensor(hooks, self.share, x._node)
            self.share = None
        self.requires_grad = x._node is not None
        self.is_leaf = isinstance(x._node, Leaf)
        # The first argument on the same storage, or None if it is this one.
        self.storage = storage
        self.history_group = history_group_of(x)

    def tensor(self, first: TensorCore | None) -> TensorCore:
        """Return a tensor with the values and the history of the argument.

        `first` is the new tensor for the first of the arguments on its storage.
        """
        share = self.share
        if self.packed is not None:
            with GradMode(False):
                share = self.packed.unpacked()
        assert share is not None, "an argument without a pack hook has a share"
        x = wrap_share(share)
        # If other code may write to the memory, each argument has its own copy, without a shared storage.
        if self.storage is not None and first is not None and first._buffer is share.buffer:
            is_related = self.history_group == self.storage.history_group
            # Numbers of groups are not negative, so ~ gives a group of no other tensor.
            join_storage(x, first, history_group_of(first) if is_related else ~self.history_group)
        if self.requires_grad:
            become_leaf(x)
            if not self.is_leaf:
                x._node = _computed(cast("Leaf", x._node))
        return x


def _computed(leaf: Leaf) -> Node:
    """Return a node for the history of a computed tensor. Unlike a leaf, it may be written to in place."""
    node = Node()
    node.rule = RULES["clone"]
    node.plan = node.rule.plan((True,))
    node.next = (leaf,)
    node.shape = leaf.shape
    node.dtype = leaf.dtype
    return node


# For error messages.
_ARGUMENTS = "checkpoint: its arguments"


def _kept(x: Any) -> Any:
    """Return `x` with each tensor replaced by a `_SavedArgument`. A tensor that occurs twice is kept once."""
    known: dict[int, _SavedArgument] = {}

    def keep(item: Any) -> Any:
        if not isinstance(item, TensorCore):
            return item
        if id(item) not in known:
            others = [known[id(x)] for x in on_same_storage(item) if id(x) in known]
            known[id(item)] = _SavedArgument(item, (others[0].storage or others[0]) if others else None)
        return known[id(item)]

    return map_nested(x, keep, _ARGUMENTS)


def _given(x: Any) -> Any:
    """Return `x`, a result of ``_kept``, with new tensors, which share memory as the originals did."""
    made: dict[_SavedArgument, TensorCore] = {}

    def give(item: Any) -> Any:
        if not isinstance(item, _SavedArgument):
            return item
        if item not in made:
            made[item] = item.tensor(None if item.storage is None else made.get(item.storage))
        return made[item]

    return map_nested(x, give, _ARGUMENTS)


def _all_kept(x: Any) -> list[_SavedArgument]:
    found: dict[_SavedArgument, None] = {}
    map_nested(
        x, lambda item: found.setdefault(item) if isinstance(item, _SavedArgument) else None, _ARGUMENTS
    )
    return list(found)
