"""References in C++ that the adapter of a library knows: graphs, bases of views, gradients.

Searches for holders follow them. This module imports nothing, so that an adapter does not load the searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

# For each class, a function that yields references in C++ with their text. It adds each visited operation of
# a graph to the given set, and skips operations in the set.
_references: dict[type, Callable[[Any, set[int]], Iterable[tuple[str, Any]]]] = {}
# The classes of operations of graphs that are written in Python. C++ holds their instances.
graph_nodes: list[type] = []
#: The text of references to what an object's graph has saved.
GRAPH = " (its graph)"


def follow_hidden(kind: type, references: Callable[[Any, set[int]], Iterable[tuple[str, Any]]]) -> None:
    """Make searches follow ``references(x, seen)`` of an instance `x` of `kind`: pairs of text and object."""
    _references[kind] = references


def note_graph_nodes(kind: type) -> None:
    """Take instances of `kind`, to which nothing refers, for operations of a graph that C++ holds."""
    graph_nodes.append(kind)


def has_hidden(x: object) -> bool:
    """Return whether `x` may have references in C++."""
    return any(kind in type(x).__mro__ for kind in _references)


def hidden_references(x: object, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the references of `x` in C++ with their text."""
    for kind, references in list(_references.items()):
        if kind in type(x).__mro__:
            yield from references(x, seen)
