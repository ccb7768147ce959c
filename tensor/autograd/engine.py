"""Backward: walk the tape from the outputs to the leaves, each node once, without recursion."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes.lowlevel import clear_library_frames
from tensor.autograd.anomalies import anomalies, recorded_at
from tensor.autograd.array_gradients import ArrayGradients, is_alone
from tensor.autograd.tensor_gradients import TensorGradients
from tensor.core.storage import claim, writable
from tensor.core.tensor_core import TensorCore, wrap_claim_unowned, wrap_unowned
from tensor.kernels.placing import copy, laid_out
from tensor.kernels.pooled import enter, leave
from tensor.memory.books import run
from tensor.tape.modes import grad_enabled, recomputing, when_enabled
from tensor.tape.nodes import Leaf, Node

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tensor.core.tensor import Tensor

ndarray = np.ndarray


def run_backward(
    roots: Sequence[tuple[Node, Any]],
    *,
    retain_graph: bool,
    create_graph: bool = False,
    only: Collection[Node] | None = None,
) -> dict[Node, Any]:
    """Carry gradients from `roots` through the graph: arrays, or with `create_graph` tensors.

    Without `only`, gradients gather in the leaves, once all of them are computed: an error on the way leaves
    every ``grad`` as it was. With `only`, the gradients of those nodes are returned instead.
    """
    before = grad_enabled.get()
    try:
        # Without a `with`: an interrupt while it is entered would leave recording switched off.
        grad_enabled.set(when_enabled.get() if create_graph else False)
        # The slope of a square root at 0 is infinite, and no news.
        with np.errstate(all="ignore"):
            kind = TensorGradients if create_graph else ArrayGradients
            # The second run of a checkpoint's function makes saved values for others: not to be freed by it.
            keep = retain_graph or recomputing.get() > 0
            watch = None if when_enabled.get() is True else anomalies()
            return _walk(roots, kind(watch, retain_graph=keep), only)
    except BaseException as error:
        # Who stores the error stores no memory of ours.
        clear_library_frames(error)
        del roots, only
        raise
    finally:
        grad_enabled.set(before)


def _walk(
    roots: Sequence[tuple[Node, Any]], gradients: ArrayGradients, only: Collection[Node] | None
) -> dict[Node, Any]:
    waiting = _count_users(roots)
    for node, g in roots:
        gradients.gather(node, g)
    ready = [node for node, users in waiting.items() if not users]
    found: dict[Node, Any] = {}
    wanted = None if only is None else _leading_to(waiting, only)
    arrived, is_watched = gradients.arrived, gradients.anomalies is not None
    step = gradients.step
    while ready:
        node = ready.pop()
        gradient = arrived.pop(node, None)
        nexts = node.next
        if gradient is not None:
            hooks = node.hooks
            if hooks is not None:
                gradient = gradients.through(hooks, node, gradient)
            if only is None:
                if not nexts and isinstance(node, Leaf):
                    found[node] = gradient
                    if hooks is not None and hooks.after:
                        gradient = None
                        _gather_now(node, found)
            elif node in only:
                found[node] = gradients.own(gradient)
            if nexts and (wanted is None or node in wanted):
                if type(node) is Node and not is_watched:
                    step(node, gradient)
                else:
                    _step(node, gradient, gradients)
            gradient = None  # its memory may serve the next one
        for after in nexts:
            if after is not None:
                users = waiting[after] - 1
                if users:
                    waiting[after] = users
                elif only is None and type(after) is Leaf and after.hooks is None:
                    if after in arrived:  # what the loop would do: a small network has as many leaves as ops
                        found[after] = arrived.pop(after)
                else:
                    ready.append(after)
    if only is None:
        with _accumulating:
            _accumulate(found)
    return found


def _step(node: Node, g: Any, gradients: ArrayGradients) -> None:
    try:
        if type(node) is Node:
            gradients.step(node, g)
        else:
            node.step(g, gradients)  # type: ignore[attr-defined]  # those of the user's own functions
    except Exception as error:
        if gradients.anomalies is not None:
            site = recorded_at(node)
            if site not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
                error.add_note(site)
        raise


def _count_users(roots: Sequence[tuple[Node, Any]]) -> dict[Node, int]:
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
                if after.next:
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


def _gather_now(node: Node, found: dict[Node, Any]) -> None:
    """Give a leaf its gradient before all others have theirs, for a hook that waits for it."""
    with _accumulating:
        _accumulate({node: found.pop(node)})
    x = node.tensor() if isinstance(node, Leaf) else None
    if x is not None and node.hooks is not None:
        for hook in list(node.hooks.after.values()):
            hook(x)


# Held while gradients are added to those of leaves: threads that share parameters lose none.
_accumulating = RLock()


def _accumulate(found: dict[Node, Any]) -> None:
    """Add the gradients that were found to those of their leaves: all of them, or on an error none."""
    grown: list[tuple[Any, Any]] = []
    homes: list[TensorCore] = []
    for node in list(found):
        x = node.home()  # type: ignore[attr-defined]  # all are leaves
        if x is None or x._node is not node:
            del found[node]  # nobody is there any more to have it
            continue
        before = x._grad
        if before is not None and before._array is not None:
            if type(found[node]) is ndarray and before._node is None:
                grown.append((before, found.pop(node)))
                continue
            found[node] = _sum(before, found[node])
        homes.append(x)
    made = tensors_of(found, wrap_unowned, wrap_claim_unowned) if found else {}
    if not grown:
        run(map(setattr, homes, repeat("_grad"), made.values()))
        return
    # Last of what may fail: each has memory of its own to write to.
    arrays = [writable(before) for before, _ in grown]
    # In one call: no signal comes between two of them.
    run(
        chain(
            map(_add_to, arrays, [g for _, g in grown], arrays),
            map(setattr, homes, repeat("_grad"), made.values()),
        )
    )


def _sum(before: Tensor, g: Any) -> Any:
    """Return a new gradient where one of the two has a history."""
    return before + g if isinstance(g, TensorCore) else leave(enter(claim(before)) + g)


# As a function of three arrays: to the first, of the first and the second, into the third.
_add_to: Callable[[Any, Any, Any], Any] = np.add


def tensors_of(
    found: dict[Node, Any], make: Callable[[Any], Tensor], share: Callable[[TensorCore], Tensor]
) -> dict[Node, Tensor]:
    """Return gradients as tensors with memory of their own: `make` of an array, `share` of another tensor.

    What is one array for several nodes is shared, as by ``clone()``.
    """
    made: dict[Node, Tensor] = {}
    first: dict[int, TensorCore] = {}
    for node in found:
        # Who counts references to an array must not hold one in a variable.
        if found[node].__class__ is ndarray and is_alone(found, node):
            made[node] = make(found[node])
        elif isinstance(found[node], TensorCore):
            made[node] = share(found[node])
            made[node]._node = found[node]._node
        elif id(found[node]) in first:
            made[node] = share(first[id(found[node])])
        else:
            # Broadcast or transposed, a tensor's own is laid out anew; or others hold it.
            is_view = isinstance(found[node].base, ndarray)
            own = make(laid_out(found[node]) if is_view else copy(found[node]))
            made[node] = first[id(found[node])] = own
    return made
