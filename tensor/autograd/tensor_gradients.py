"""Gradients on their way through the graph, as tensors: backward that is itself recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.array_gradients import ArrayGradients, saved_by
from tensor.autograd.recorded_functions import Functions as xp  # noqa: N813  # as derivatives call it
from tensor.core.tensor_core import wrap_claim, wrap_with
from tensor.memory.books import Size
from tensor.tape.nodes import Node

if TYPE_CHECKING:
    from tensor.core.storage import Hold
    from tensor.core.tensor import Tensor
    from tensor.tape.hooks import NodeHooks


class TensorGradients(ArrayGradients):
    """What has come in for each node so far, with its history."""

    __slots__ = ()

    def step(self, node: Node, g: Any) -> None:
        """Pass `g` on, as the other does: saved values are tensors with the history that they had."""
        saved_by(node)
        known: dict[int, Any] = {}
        for i, function, places in node.plan.steps:
            after = node.next[i]
            if after is None:
                continue
            values = []
            for p in places:
                if p < 0:
                    values.append(i if p == -1 else after.shape)
                    continue
                if p not in known:
                    known[p] = _connected(node, p)
                values.append(known[p])
            gradient = function(xp, g, *values)
            if gradient is not None:
                self.add(after, fit_tensor(gradient, after), node, i)
        if not self.retain_graph:
            node.saved = None
            node.holds = ()

    def through(self, hooks: NodeHooks, node: Node, g: Any) -> Any:
        """Return what the hooks of `node` make of its gradient."""
        return hooks.pass_through(node, self.own(g))

    def own(self, g: Any) -> Any:
        """Return `g` as a tensor that the user may write to: other nodes may have it, or the user."""
        made = wrap_claim(g)
        made._node = g._node
        return made

    def gather(self, to: Node, g: Any) -> None:
        """Add `g` to what has arrived; the sum is recorded."""
        before = self.arrived.get(to)
        self.arrived[to] = g if before is None else before + g


def fit_tensor(gradient: Any, node: Node) -> Tensor:
    """Return the gradient in the shape and dtype of the node's values, as ``fit`` does."""
    shape, dtype = node.shape, node.dtype
    g: Tensor = xp.asarray(gradient)
    if g.shape != shape:
        added = g.ndim - len(shape)
        if added > 0:
            g = xp.sum(g, axis=tuple(range(added)), dtype=g.dtype)
        stretched = tuple([i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1])
        if stretched:
            g = xp.sum(g, axis=stretched, keepdims=True, dtype=g.dtype)
        if g.shape != shape:
            g = xp.broadcast_to(g, shape)
    if g.dtype != dtype:
        g = xp.astype(xp.real(g) if dtype.kind != "c" else g, dtype)
    return g


def _connected(node: Node, place: int) -> Any:
    """Return a saved value as what it was to the op: an input or the output, with its history."""
    saved = saved_by(node)
    source, value = node.plan.saves[place], saved[place]
    if isinstance(source, str):
        return _parameter(node, source, place)
    if not isinstance(value, np.ndarray):
        return value
    is_output = source == len(node.next)
    return _tensor_over(node, place, node if is_output else node.next[source])


def _parameter(node: Node, name: str, place: int) -> Any:
    """Return a parameter: a constant, or a tensor if higher derivatives need to know how it was computed."""
    saved = saved_by(node)
    value = saved[place]
    rule = node.rule.derived.get(name)
    if rule is None or not isinstance(value, np.ndarray):
        return value
    plan = rule.plan(tuple([after is not None for after in node.next]))
    places = [place if source == len(node.next) else node.plan.saves.index(source) for source in plan.saves]
    for p in places:
        _share_hold(node, p)
    own = object.__new__(Node)
    own.rule = rule
    own.plan = plan
    own.next = node.next
    own.saved = tuple([saved[p] for p in places])
    own.holds = tuple([node.holds[p] for p in places])
    own.hooks = None
    own.shape = value.shape
    own.dtype = value.dtype
    return _tensor_over(node, place, own)


def _tensor_over(node: Node, place: int, history: Node | None) -> Tensor:
    """Return a tensor over a saved array, which counts its memory together with the node."""
    _share_hold(node, place)
    return wrap_with(saved_by(node)[place], history, _hold_at(node, place))


def _hold_at(node: Node, place: int) -> Hold:
    holds = node.holds
    # That of a saved output stands last.
    if node.plan.saves[place] == len(node.next):
        return holds[-1] if len(holds) > len(node.plan.saves) else None  # type: ignore[return-value]
    return holds[place]  # type: ignore[return-value]  # what `record` put there


def _share_hold(node: Node, place: int) -> None:
    """Let others hold what counts a small saved array, too."""
    holds = node.holds
    if holds[place].__class__ is Size:
        # No variable may hold a Size, as `tensor.memory.accounting` says.
        node.holds = (*holds[:place], (holds[place],), *holds[place + 1 :])
