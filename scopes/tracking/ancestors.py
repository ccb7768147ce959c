"""The objects that lead to some objects, by references, up to frames, modules and classes."""

from __future__ import annotations

import sys
from collections import deque
from types import FrameType, ModuleType
from typing import Any

from scopes._shared.tracebacks import is_ours
from scopes.tracking.records import Record
from scopes.tracking.referrers import object_count, references_to

# Each step visits all objects of the program, which takes some 20 ms for a program with PyTorch. The search
# takes fewer steps in a program with many objects, but at least the first number.
_MIN_STEPS, _MAX_STEPS = 8, 32
_MAX_VISITS = 10_000_000
# The number of found objects after which the search ends.
_MAX_OBJECTS = 100_000
_MAX_CYCLE = 12


class Referrers:
    """The objects that refer to some objects, and those that refer to them."""

    def __init__(self, objects: list[Any], ignored: set[int]) -> None:
        """Search for the referrers of `objects`. `ignored` has the ids of the caller's lists of them."""
        self.objects: dict[int, Any] = {id(x): x for x in objects}
        # For each object, those that refer to it.
        self.of: dict[int, list[int]] = {id(x): [] for x in objects}
        # The objects that running frames, modules or classes refer to.
        self.with_root: set[int] = set()
        #: The ids of these.
        self.roots: set[int] = set()
        self._running = running_frames()
        steps = max(_MIN_STEPS, min(_MAX_STEPS, _MAX_VISITS // object_count()))
        frontier = list(objects)
        ignored = {id(objects), id(self.objects), *ignored}
        for _ in range(steps):
            if not frontier or len(self.objects) > _MAX_OBJECTS:
                break
            frontier = self._step(frontier, {id(frontier), *ignored})
        #: Whether the search ended because there are no other referrers.
        self.is_complete = not frontier

    def _step(self, frontier: list[Any], ignored: set[int]) -> list[Any]:
        found: list[Any] = []
        for referrer, key in references_to({id(x) for x in frontier}):
            if id(referrer) in ignored or _is_of_tracking(referrer):
                continue
            if self._is_root(referrer):
                self.with_root.add(key)
                self.roots.add(id(referrer))
                continue
            self.of[key].append(id(referrer))
            if id(referrer) not in self.objects:
                self.objects[id(referrer)] = referrer
                self.of[id(referrer)] = []
                found.append(referrer)
        return found

    def _is_root(self, x: object) -> bool:
        # `isinstance` would also ask for ``x.__class__``, which runs code of lazy proxies.
        kind = type(x)
        if issubclass(kind, FrameType):
            return id(x) in self._running  # an ended one belongs to a traceback or a generator
        return issubclass(kind, (ModuleType, type)) or _is_namespace(x)

    def has(self, x: object) -> bool:
        """Return whether `x` is one of the objects, or a class that leads to one of them."""
        return id(x) in self.objects or id(x) in self.roots

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


def _is_namespace(x: object) -> bool:
    return type(x) is dict and "__name__" in x and "__loader__" in x


def _is_of_tracking(x: object) -> bool:
    """Return whether `x` is a frame of this library, or one of its lists of tracked objects."""
    if type(x) is FrameType:
        return is_ours(x)
    if type(x) is tuple:
        return len(x) == 2 and type(x[0]) is Record
    # Another thread may empty the list meanwhile: a slice has an item or none.
    return type(x) is list and any(type(item) is tuple and _is_of_tracking(item) for item in x[:1])


def running_frames() -> set[int]:
    """Return the ids of the frames that run on any thread."""
    found: set[int] = set()
    # Leave no variable that refers to this function's own frame: that would be a cycle.
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        del innermost
        while frame is not None:
            found.add(id(frame))
            frame = frame.f_back
    return found
