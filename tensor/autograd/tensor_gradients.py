"""Backward with ``create_graph=True``: gradients are tensors with a history."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensor.autograd.engine import Backward, PendingGradient, holds_memory, put_back, restore
from tensor.autograd.recorded_functions import Functions as xp  # noqa: N813  # the name that derivatives use
from tensor.core.tensor import wrap_share
from tensor.memory.buffer import Share
from tensor.tape.recording import Node

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class RecordedBackward(Backward):
    """A recorded backward pass, whose results can be differentiated again."""

    def __init__(
        self, retain_graph: bool, only: Collection[Node] | None = None, into_leaves: bool = False
    ) -> None:
        super().__init__(retain_graph, only, is_recorded=True, into_leaves=into_leaves)

    def step(self, node: Node, pending: PendingGradient) -> None:
        """Add the gradients of the inputs of `node`. Saved values are tensors with their history."""
        packed = restore(node)
        try:
            self._add_all(node, pending)
        finally:
            put_back(node, packed)

    def _add_all(self, node: Node, pending: PendingGradient) -> None:
        known: dict[int, Any] = {}
        for i, function, places in node.plan.steps:
            after = node.next[i]
            if after is None:
                continue
            values = []
            for p in places:
                if p < 0:  # -1: the index of the input; else its shape
                    values.append(i if p == -1 else after.shape)
                    continue
                if p not in known:
                    known[p] = _connected(node, p)
                values.append(known[p])
            gradient = function(xp, pending.value, *values)
            if gradient is not None:
                self.add(after, fit_tensor(gradient, after), node, i)
        node.is_in_use = False
        if not self.retain_graph:
            node.recipe = None
            if holds_memory(_saved_by(node)):
                node.saved = None
                node.holds = ()


def _saved_by(node: Node) -> tuple[Any, ...]:
    """Return the saved values of `node`, which are restored."""
    return cast("tuple[Any, ...]", node.saved)


def fit_tensor(gradient: Any, node: Node) -> Tensor:
    """Return the gradient in the shape and dtype of the node's values. Sum over broadcast dimensions."""
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
    """Return a saved value. The array of an input or output becomes a tensor with its history."""
    saved = _saved_by(node)
    source, value = node.plan.saves[place], saved[place]
    if isinstance(source, str):
        return _parameter(node, source, place)
    if not isinstance(value, np.ndarray):
        return value
    is_output = source == len(node.next)
    return _tensor_over(node, place, node if is_output else node.next[source])


def _parameter(node: Node, name: str, place: int) -> Any:
    """Return a parameter: a constant, or a tensor if higher derivatives depend on its history."""
    saved = _saved_by(node)
    value = saved[place]
    rule = node.rule.derived.get(name)
    if rule is None or not isinstance(value, np.ndarray):
        return value
    plan = rule.plan(tuple([after is not None for after in node.next]))
    places = [place if source == len(node.next) else node.plan.saves.index(source) for source in plan.saves]
    own = Node()
    own.rule = rule
    own.plan = plan
    own.next = node.next
    own.saved = tuple([saved[p] for p in places])
    own.holds = tuple([node.holds[p] for p in places])
    own.shape = value.shape
    own.dtype = value.dtype
    return _tensor_over(node, place, own)


def _tensor_over(node: Node, place: int, history: Node | None) -> Tensor:
    """Return a tensor over a saved value, which shares memory with the node."""
    # Every saved array has a share.
    x = wrap_share(cast("Share", node.holds[place]))
    x._node = history
    return x
