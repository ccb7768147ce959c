"""Give gradients the line of the ``backward()`` call that created them, while tracking is on.

C++ creates a gradient. Its Python object, which tracking sees, is created when the program first reads
``p.grad``. As long as the program calls ``backward()`` in one line, all gradients have this line. From the
first call in another line on, this module reads the gradients of the leaves of each call's graph right after
it. So gradients of leaves that the program reads later for the first time have the first line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from scopes.adapters import foreign
from scopes.adapters.torch.library import torch
from scopes.tracking.tracking import current

if TYPE_CHECKING:
    from scopes.tracking.records import Tracker
    from scopes.tracking.sites import Site

_NoFunctions = torch._C.DisableTorchFunction
_backward_id = torch._C._current_graph_task_id


class _Calls:
    """The calls of ``backward()`` since tracking began."""

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        # The line of all calls so far, and whether there are others.
        self.line: Site | None = None
        self.are_others = False


class _Reading(threading.local):
    """The line of the gradients that this thread reads after a backward, or None."""

    line: Site | None = None


_calls = _Calls()
_reading = _Reading()


def forget() -> None:
    """Forget the calls, because tracking has ended."""
    _calls.tracker = _calls.line = None
    _calls.are_others = False
    foreign.locate_gradients(None)


def run_backward(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `run`, the function of PyTorch that runs a backward."""
    tracker = current.tracker
    # A backward inside another one, such as that of a checkpoint, belongs to the outer call.
    if tracker is None or not kwargs.get("accumulate_grad") or _backward_id() != -1:
        return run(*args, **kwargs)
    line = tracker.locate()
    if _calls.tracker is not tracker:
        _calls.tracker, _calls.line, _calls.are_others = tracker, line, False
        foreign.locate_gradients(_line_of_gradient)
    if line is _calls.line and not _calls.are_others:
        return run(*args, **kwargs)
    leaves = _leaves_of(args[0])
    if not _calls.are_others:
        _read(leaves, _calls.line)  # this call may add to gradients of the first line
        _calls.are_others = True
    result = run(*args, **kwargs)
    _read(leaves, line)
    return result


def _line_of_gradient(x: Any) -> Site | None:
    """Return the line of the gradient of `x`, which is read for the first time; None: the current line."""
    if _reading.line is not None:
        return _reading.line
    if _calls.are_others:
        # The gradients of other lines' leaves have been read. Those of other tensors may be of any line.
        with _NoFunctions():
            if not x.is_leaf:
                return None
    return _calls.line


def _read(leaves: Iterable[Any], line: Site | None) -> None:
    """Create the Python objects of the gradients, with `line` as their line."""
    _reading.line = line
    try:
        with _NoFunctions():
            for leaf in leaves:
                leaf.grad  # noqa: B018
    finally:
        _reading.line = None


def _leaves_of(outputs: Iterable[Any]) -> list[Any]:
    """Return the leaves of the graphs of `outputs`."""
    leaves: list[Any] = []
    with _NoFunctions():
        stack = [x.grad_fn for x in outputs]
        leaves += [x for x in outputs if x.grad_fn is None]
        seen: set[int] = set()
        held: list[Any] = []  # keeps the operations' Python objects alive, because `seen` has their ids
        while stack:
            node = stack.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            held.append(node)
            leaf = getattr(node, "variable", None)
            if isinstance(leaf, torch.Tensor):
                leaves.append(leaf)
            stack += [inner for inner, _ in node.next_functions]
    return leaves
