"""The tensors that graphs of other libraries have saved, for searches that follow references."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

# For each class, a function that yields the saved objects of an instance's graph. It adds each visited
# operation to the given set, and skips operations in the set.
graphs: dict[type, Callable[[Any, set[int]], Iterable[Any]]] = {}


def follow_graphs(kind: type, saved: Callable[[Any, set[int]], Iterable[Any]]) -> None:
    """Make searches follow the objects that ``saved(x, seen)`` yields for an instance `x` of `kind`."""
    graphs[kind] = saved
