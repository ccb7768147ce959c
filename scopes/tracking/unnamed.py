"""Explain what holds objects that no name leads to: a reference cycle, C++, or objects without a name.

The search goes from an object to the objects that refer to it, which the garbage collector finds, and on to
the objects that refer to these. It ends where nothing refers to an object, or at a frame or a module.
"""

from __future__ import annotations

import gc
from collections import deque
from types import FrameType, ModuleType
from typing import Any

from scopes.core.tracebacks import is_ours
from scopes.tracking.hidden import graph_nodes, hidden_references
from scopes.tracking.holders import is_of_user, references_of, running_frames
from scopes.tracking.records import Record

# The most steps from an object, and the most objects that refer to it. Each step visits all objects of the
# program, which takes some 20 ms for a program with PyTorch.
_MAX_STEPS = 8
_MAX_OBJECTS = 20_000
_MAX_CYCLE = 12

IN_GRAPH = "C++ (a backward graph)"
NO_NAME = "no name of yours"
IN_CPP = f"{NO_NAME} (C++, or a call that is running)"


class _Referrers:
    """The objects that refer to some objects, and those that refer to them."""

    def __init__(self, objects: list[Any], ignored: set[int]) -> None:
        self.objects: dict[int, Any] = {id(x): x for x in objects}
        # For each object, those that refer to it.
        self.of: dict[int, list[int]] = {id(x): [] for x in objects}
        # The objects that running frames, modules or classes refer to.
        self.with_root: set[int] = set()
        self._running = running_frames()
        self.is_complete = False
        frontier = list(objects)
        skipped = {id(self.objects), id(self.of), id(objects), *ignored}
        for _ in range(_MAX_STEPS):
            if not frontier or len(self.objects) > _MAX_OBJECTS:
                break
            frontier = self._step(frontier, skipped)
        self.is_complete = not frontier

    def _step(self, frontier: list[Any], skipped: set[int]) -> list[Any]:
        targets = {id(x) for x in frontier}
        # Since Python 3.13, the tuple of arguments is one of the referrers. It is this tuple, not a copy.
        arguments = tuple(frontier)
        referrers = gc.get_referrers(*arguments)
        skipped |= {id(frontier), id(arguments), id(referrers)}
        found = []
        for referrer in referrers:
            if id(referrer) in skipped or _is_of_tracking(referrer):
                continue
            to = [id(x) for x in gc.get_referents(referrer) if id(x) in targets]
            if self._is_root(referrer):
                self.with_root.update(to)
                continue
            for key in to:
                self.of[key].append(id(referrer))
            if id(referrer) not in self.objects:
                self.objects[id(referrer)] = referrer
                self.of[id(referrer)] = []
                found.append(referrer)
        referrers.clear()
        return found

    def _is_root(self, x: object) -> bool:
        if isinstance(x, FrameType):
            return id(x) in self._running  # an ended one belongs to a traceback or a generator
        return isinstance(x, ModuleType | type) or _is_namespace(x)

    def with_names(self) -> set[int]:
        """Return the ids of objects to which a frame, a module or an object without a referrer leads."""
        inner: dict[int, list[int]] = {key: [] for key in self.objects}
        for key, referrers in self.of.items():
            for referrer in referrers:
                inner[referrer].append(key)
        stack = [*self.with_root, *[key for key, referrers in self.of.items() if not referrers]]
        found = set(stack)
        while stack:
            for key in inner[stack.pop()]:
                if key not in found:
                    found.add(key)
                    stack.append(key)
        return found

    def ends_of(self, x: Any) -> list[Any]:
        """Return the objects without a referrer that lead to `x`, or `x` itself."""
        seen, stack, ends = {id(x)}, [id(x)], []
        while stack:
            key = stack.pop()
            if not self.of[key] and key not in self.with_root:
                ends.append(self.objects[key])
            for referrer in self.of[key]:
                if referrer not in seen:
                    seen.add(referrer)
                    stack.append(referrer)
        return ends

    def cycle_to(self, x: Any) -> list[Any]:
        """Return the objects of the nearest cycle that leads to `x`, each referring to the next."""
        seen, queue = {id(x)}, deque([id(x)])
        while queue:
            key = queue.popleft()
            cycle = self._cycle_through(key)
            if cycle:
                return [self.objects[each] for each in cycle]
            for referrer in self.of[key]:
                if referrer not in seen:
                    seen.add(referrer)
                    queue.append(referrer)
        return []

    def _cycle_through(self, start: int) -> list[int]:
        """Return the shortest cycle through `start`, which is first, or nothing."""
        after: dict[int, int] = {}
        queue = deque([(start, 0)])
        while queue:
            key, length = queue.popleft()
            for referrer in self.of[key]:
                if referrer == start:
                    path = [start]
                    while key != start:
                        path.append(key)
                        key = after[key]
                    return path
                if referrer not in after and length < _MAX_CYCLE:
                    after[referrer] = key
                    queue.append((referrer, length + 1))
        return []


def explain_unnamed(objects: list[Any], ignored: set[int]) -> dict[int, str]:
    """Return words for what holds each of `objects` that no frame or module leads to, by id.

    `ignored` has the ids of the caller's lists that refer to them.
    """
    referrers = _Referrers(objects, ignored)
    try:
        if not referrers.is_complete:
            return {}
        named = referrers.with_names()
        by_graph = _held_by_graphs(objects)
        return {
            id(x): text for x in objects if (text := _explained(x, referrers, named, by_graph)) is not None
        }
    finally:
        # They may refer to themselves.
        referrers.objects.clear()


def _explained(x: Any, referrers: _Referrers, named: set[int], by_graph: set[int]) -> str | None:
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


def _is_namespace(x: object) -> bool:
    return type(x) is dict and "__name__" in x and "__loader__" in x


def _is_of_tracking(x: object) -> bool:
    """Return whether `x` is a frame of this library, or one of its lists of tracked objects."""
    if isinstance(x, FrameType):
        return is_ours(x)
    if type(x) is tuple:
        return len(x) == 2 and type(x[0]) is Record
    return type(x) is list and bool(x) and type(x[0]) is tuple and _is_of_tracking(x[0])


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
