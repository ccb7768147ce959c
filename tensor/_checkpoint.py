"""Checkpoints: what a part of the forward pass would save is computed again when backward comes there.

The part's nodes are recorded as ever, so gradients, hooks and errors are those of any graph; but instead of
saved values each has the `Segment`, which keeps the part's inputs. Run again, the function records the same
ops in the same order: their saved values go to the nodes that wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from weakref import ref

from scopes import new_dispose_scope
from tensor._core import TensorCore, wrap_with
from tensor._derivatives import RULES
from tensor._graph import Deferred, Leaf, Node
from tensor._modes import Recorder, Recording, is_recording, when_enabled
from tensor._random import default_generator
from tensor._storage import claim_and_hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._storage import Array, Hold

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return ``function(*args, **kwargs)``; what its ops save is freed, and computed again by backward.

    Memory for time: of the whole call only the tensors among its arguments are kept (shared, copied when
    they are written to), and backward runs `function` once more, with random numbers as the first time. The
    gradients are the same to the last bit.

    Parameters
    ----------
    function
        Runs twice: it must do the same the second time. Tensors that it does not get as arguments, as a
        module's parameters, must be as they were. Running figures of ``batch_norm`` move once.
    *args, **kwargs
        For `function`; tensors may stand in lists, tuples and dicts.

    Raises
    ------
    RuntimeError
        By backward, if `function` records other ops the second time.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.ones((1000,), requires_grad=True)
    >>> y = autograd.checkpoint(lambda x: (x * 0).cos().exp(), x)  # saves x, in place of three results
    >>> y.sum().backward()
    >>> x.grad.abs().sum().item()
    0.0
    """
    if not is_recording():
        return function(*args, **kwargs)
    segment = Segment(function, args, kwargs)
    with Recording(_Forgetful(segment)):
        return function(*args, **kwargs)


class Segment(Deferred):
    """A part of the forward pass that can be run again: the function, its inputs, the random state."""

    __slots__ = ("args", "function", "kwargs", "nodes", "random_state", "rules")

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.function = function
        self.args = _kept(args)
        self.kwargs = _kept(kwargs)
        self.random_state = default_generator.get_state()
        self.nodes: list[ref[Node]] = []
        self.rules: list[Any] = []

    def add(self, node: Node) -> None:
        """Let `node` wait for its values."""
        node.saved = self
        node.holds = ()
        node.plan = node.plan.bare()
        self.nodes.append(ref(node))
        self.rules.append(node.rule)

    def restore(self, node: Node) -> None:
        """Run the function again, and give all nodes that wait their values."""
        again = _Collecting()
        before = default_generator.get_state()
        default_generator.set_state(self.random_state)
        try:
            with new_dispose_scope("checkpoint"), Recording(again, always=True):
                self.function(*_given(self.args), **_given(self.kwargs))
        finally:
            default_generator.set_state(before)
        if [made.rule for made in again.nodes] != self.rules:
            raise RuntimeError(
                f"{node.name()}: the function of this checkpoint has recorded {len(self.rules)} ops in the "
                f"forward pass, and now {_difference(self.rules, again.nodes)}. It must do the same each "
                "time: it may not depend on what has changed since, as on a counter"
            )
        for waiting, made in zip(self.nodes, again.nodes, strict=True):
            target = waiting()
            if target is not None and target.saved is self:
                target.plan, target.saved, target.holds = made.plan, made.saved, made.holds

    def arrays(self) -> list[Array]:
        """Return the arrays that are kept for the second run."""
        return [kept.array for kept in _all_kept((self.args, self.kwargs))]


def _difference(rules: list[Any], nodes: list[Node]) -> str:
    for i, (rule, node) in enumerate(zip(rules, nodes, strict=False)):
        if rule is not node.rule:
            return f"{node.rule.name!r} in place of {rule.name!r} as number {i}"
    return f"{len(nodes)}"


class _Forgetful(Recorder):
    """Gives each node that is recorded to a segment, which takes its saved values away."""

    __slots__ = ("segment",)

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.segment = segment
        self.outer = _beyond_checkpoints(self.outer)

    def show(self, node: Node) -> None:
        self.segment.add(node)
        super().show(node)


class _Collecting(Recorder):
    """Keeps the nodes that are recorded."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        super().__init__()
        self.outer = _beyond_checkpoints(self.outer)
        self.nodes: list[Node] = []

    def show(self, node: Node) -> None:
        self.nodes.append(node)
        super().show(node)


def _beyond_checkpoints(recorder: Recorder | None) -> Recorder | None:
    """Return the first outer recorder that is no checkpoint's: a node belongs to the innermost of them."""
    while isinstance(recorder, (_Forgetful, _Collecting)):
        recorder = recorder.outer
    return recorder


def is_recomputing() -> bool:
    """Tell whether the function of a checkpoint is running for the second time: effects have been had."""
    return isinstance(when_enabled.get(), _Collecting)


class _Kept:
    """The values of a tensor argument, whatever is written to it later."""

    __slots__ = ("array", "hold", "is_leaf", "requires_grad")

    def __init__(self, x: TensorCore) -> None:
        self.array: Array
        self.hold: Hold
        self.array, self.hold = claim_and_hold(x)
        self.requires_grad = x._node is not None
        self.is_leaf = isinstance(x._node, Leaf)

    def tensor(self) -> TensorCore:
        """Return a tensor with the values, by which is recorded what was recorded by the argument."""
        x = wrap_with(self.array, None, self.hold)
        if self.requires_grad:
            x._become_leaf()
            if not self.is_leaf:
                x._node = _computed(x._node)
        return x


def _computed(leaf: Node | None) -> Node:
    """Return a node for what stands for a computed tensor, which may be written to in place."""
    node = object.__new__(Node)
    node.rule = RULES["clone"]
    node.plan = node.rule.plan((True,))
    node.next = (leaf,)
    node.saved = ()
    node.holds = ()
    node.shape = cast("Node", leaf).shape
    node.dtype = cast("Node", leaf).dtype
    return node


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    """Return `x` with all in its lists, tuples and dicts changed."""
    kind = type(x)
    if kind is list or kind is tuple:
        return kind([_mapped(item, change) for item in x])
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind(*[_mapped(item, change) for item in x])
    if kind is dict:
        return {key: _mapped(item, change) for key, item in x.items()}
    return change(x)


def _kept(x: Any) -> Any:
    return _mapped(x, lambda item: _Kept(item) if isinstance(item, TensorCore) else item)


def _given(x: Any) -> Any:
    return _mapped(x, lambda item: item.tensor() if isinstance(item, _Kept) else item)


def _all_kept(x: Any) -> list[_Kept]:
    found: list[_Kept] = []
    _mapped(x, lambda item: found.append(item) if isinstance(item, _Kept) else None)
    return found
