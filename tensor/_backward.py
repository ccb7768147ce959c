"""Backward: walk the tape from the outputs to the leaves, each node once, without recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._core import wrap_unowned
from tensor._graph import Leaf, Node
from tensor._placing import astype, laid_out, reduce
from tensor._pooled import enter, leave, xp
from tensor._storage import Array, writable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SECOND_BACKWARD = (
    "backward through a graph whose saved values are already freed: they go as backward uses them. Call "
    "the first "
    "backward with retain_graph=True, or compute the output anew"
)


def run_backward(
    roots: Sequence[tuple[Node, Array]], *, retain_graph: bool, only: Collection[Node] | None = None
) -> dict[Node, Array]:
    """Carry gradients from `roots` through the graph.

    Without `only`, gradients gather in the leaves, once all of them are computed: an error on the way leaves
    every ``grad`` as it was. With `only`, the gradients of those nodes are returned instead.
    """
    waiting = _count_users(roots)
    gradients: dict[Node, Array] = {}
    # Sums made here; only these may be added to in place.
    sums: set[Node] = set()
    for node, g in roots:
        _gather(gradients, sums, node, g)
    ready = [node for node in waiting if waiting[node] == 0]
    found: dict[Node, Array] = {}
    wanted = None if only is None else _leading_to(waiting, only)
    # The slope of a square root at 0 is infinite, and no news.
    with np.errstate(all="ignore"):
        while ready:
            node = ready.pop()
            gradient = gradients.pop(node, None)
            sums.discard(node)
            if gradient is not None:
                if only is None:
                    if isinstance(node, Leaf):
                        found[node] = gradient
                elif node in only:
                    found[node] = gradient
                if node.next and (wanted is None or node in wanted):
                    _step(node, gradient, gradients, sums, retain_graph=retain_graph)
                gradient = None  # its memory may serve the next one
            for after in node.next:
                if after is not None:
                    waiting[after] -= 1
                    if waiting[after] == 0:
                        ready.append(after)
    if only is None:
        while found:
            _accumulate(*found.popitem())
    return found


def _count_users(roots: Sequence[tuple[Node, Array]]) -> dict[Node, int]:
    """Return every node that can be reached, with the number of edges that lead to it."""
    users: dict[Node, int] = {}
    stack: list[Node] = []
    for root, _ in roots:
        if root not in users:
            users[root] = 0
            stack.append(root)
    while stack:
        for after in stack.pop().next:
            if after is None:
                continue
            if after in users:
                users[after] += 1
            else:
                users[after] = 1
                stack.append(after)
    return users


def _leading_to(nodes: Collection[Node], targets: Collection[Node]) -> set[Node]:
    """Return those of `nodes` (users before used) from which some target can be reached."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for after in node.next:
            if after is not None:
                users.setdefault(after, []).append(node)
    leading: set[Node] = set()
    stack = list(targets)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in leading:
                leading.add(user)
                stack.append(user)
    return leading


def _step(node: Node, g: Array, gradients: dict[Node, Array], sums: set[Node], *, retain_graph: bool) -> None:
    saved = node.saved
    if saved is None:
        raise RuntimeError(f"{node.name()}: {SECOND_BACKWARD}")
    # What is large comes in with its results in the pool.
    passed = enter(g)
    values = [enter(value) for value in saved]
    for i, function, places in node.plan.steps:
        after = node.next[i]
        if after is None:
            continue
        gradient = function(
            xp, passed, *[values[p] if p >= 0 else i if p == -1 else after.shape for p in places]
        )
        if gradient is not None:
            _gather(gradients, sums, after, _fit(leave(gradient), after))
    if not retain_graph and saved:
        node.saved = None
        node.holds = ()


def _fit(gradient: Any, node: Node) -> Array:
    """Return the gradient in the shape and dtype of the node's values: broadcasting is undone by sums."""
    shape, dtype = node.shape, node.dtype
    g: Array = gradient if type(gradient) is np.ndarray else np.asarray(gradient)
    if g.shape != shape:
        added = g.ndim - len(shape)
        if added > 0:
            g = _sum(g, tuple(range(added)))
        stretched = tuple([i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1])
        if stretched:
            g = _sum(g, stretched, keepdims=True)
        if g.shape != shape:
            g = np.broadcast_to(g, shape)
    if g.dtype is not dtype and g.dtype != dtype:
        g = astype(g.real if g.dtype.kind == "c" and dtype.kind != "c" else g, dtype)
    return g


def _sum(g: Array, axes: tuple[int, ...], *, keepdims: bool = False) -> Array:
    return np.asarray(reduce(np.add, g, axes, None, keepdims))


def _gather(gradients: dict[Node, Array], sums: set[Node], node: Node, g: Array) -> None:
    before = gradients.get(node)
    if before is None:
        gradients[node] = g
    elif node in sums:
        np.add(before, g, out=before)
    else:
        gradients[node] = np.asarray(leave(enter(before) + g))
        sums.add(node)


def _accumulate(leaf: Node, gradient: Array) -> None:
    if not isinstance(leaf, Leaf) or leaf.is_closed:
        return
    grad = leaf.grad
    if grad is None or grad._array is None:
        leaf.grad = wrap_unowned(own_layout(gradient))
    else:
        array = writable(grad)
        np.add(array, gradient, out=array)


def own_layout(gradient: Array) -> Array:
    """Return a gradient that is a tensor's own: broadcast or transposed ones are laid out anew."""
    return laid_out(gradient) if isinstance(gradient.base, np.ndarray) else gradient
