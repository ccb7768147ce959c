"""Explain what holds objects that no name leads to: a reference cycle, C++, or objects without a name.

The search goes from an object to the objects that refer to it, which the garbage collector finds, and on to
the objects that refer to these. It ends where nothing refers to an object, or at a frame or a module.
"""

from __future__ import annotations

from typing import Any

from scopes.tracking.ancestors import Referrers
from scopes.tracking.hidden import graph_nodes, hidden_references
from scopes.tracking.holders import is_of_user, references_of

IN_GRAPH = "C++ (a backward graph)"
NO_NAME = "no name of yours"
IN_CPP = f"{NO_NAME} (C++, or a call that is running)"


def explain_unnamed(objects: list[Any], referrers: Referrers) -> dict[int, str]:
    """Return words for what holds each of `objects` that no frame or module leads to, by id.

    `referrers` has all objects that lead to them.
    """
    named = referrers.with_names()
    by_graph = _held_by_graphs(objects)
    return {id(x): text for x in objects if (text := _explained(x, referrers, named, by_graph)) is not None}


def _explained(x: Any, referrers: Referrers, named: set[int], by_graph: set[int]) -> str | None:
    if id(x) not in named:
        return f"a reference cycle: {_text_of(referrers.cycle_to(x))}"
    ends = referrers.ends_of(x)
    if not ends:
        return None  # a frame or a module leads to it
    if id(x) in by_graph or any(kind in type(end).__mro__ for end in ends for kind in graph_nodes):
        return IN_GRAPH
    if ends == [x]:
        return IN_CPP
    names = sorted({type(end).__name__ for end in ends})
    return f"{NO_NAME} ({', '.join(names[:3])})"


def _held_by_graphs(objects: list[Any]) -> set[int]:
    """Return the ids of what the graphs of `objects` and of their gradients refer to."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(objects)
    while stack:
        for _, x in hidden_references(stack.pop(), seen):
            if id(x) not in found:
                found.add(id(x))
                stack.append(x)
    return found


def _text_of(cycle: list[Any]) -> str:
    """Return a cycle as text: the class of an object, and the references that lead back to it."""
    # Omit the dicts of attributes.
    spaces = {id(vars_) for x in cycle if (vars_ := _namespace_of(x)) is not None}
    cycle = [x for x in cycle if id(x) not in spaces]
    # Begin with a class of the user's, the first by name, so that equal cycles give equal texts.
    names = [(_rank(x), type(x).__name__) for x in cycle]
    first = names.index(min(names))
    cycle = [*cycle[first:], *cycle[:first]]
    steps = [_step_between(x, after) for x, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    return type(cycle[0]).__name__ + "".join(steps)


def _rank(x: object) -> int:
    module = type(x).__module__
    return 0 if is_of_user(module) else 2 if module == "builtins" else 1


def _namespace_of(x: Any) -> object:
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None


def _step_between(x: Any, after: Any) -> str:
    for step, value in references_of(x):
        if value is after:
            return "[...]" if step.is_item else step.text
    return ""
