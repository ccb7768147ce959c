"""Nested containers of tensors ("pytrees"): lists, tuples, named tuples, dicts, deques."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Structure", "broadcast_prefix", "flatten", "map_leaves"]


class Structure:
    """The containers of a pytree, without its leaves.

    Parameters
    ----------
    kind
        The class of the container, or None for a leaf.
    context
        What two containers of one class must have in common: the keys of a dict.
    children
        The structures of its items.
    """

    __slots__ = ("children", "context", "kind", "leaf_count")

    def __init__(self, kind: type | None, context: Any, children: list[Structure]) -> None:
        self.kind = kind
        self.context = context
        self.children = children
        self.leaf_count: int = 1 if kind is None else sum(child.leaf_count for child in children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (self.kind, self.context, self.children) == (
            other.kind,
            other.context,
            other.children,
        )

    __hash__ = None  # type: ignore[assignment]  # it has lists

    def __repr__(self) -> str:
        return repr(self.unflatten(["*"] * self.leaf_count)).replace("'*'", "*")

    def unflatten(self, leaves: list[Any]) -> Any:
        """Return the pytree with these leaves."""
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        kind = self.kind
        if kind is None:
            return next(leaves)
        items = [child._build(leaves) for child in self.children]
        if issubclass(kind, tuple):
            return kind(*items) if kind is not tuple else tuple(items)
        if kind is defaultdict:
            factory, keys = self.context
            return defaultdict(factory, zip(keys, items, strict=True))
        if kind in (dict, OrderedDict):
            return kind(zip(self.context, items, strict=True))
        return deque(items, maxlen=self.context) if kind is deque else items


def _parts(x: Any) -> tuple[type, Any, list[Any]] | None:
    """Return the class, the context and the items of a container; None for a leaf."""
    kind = type(x)
    if kind in (list, tuple):
        return kind, None, list(x)
    if kind in (dict, OrderedDict):
        return kind, list(x), list(x.values())
    if kind is defaultdict:
        return kind, (x.default_factory, list(x)), list(x.values())
    if kind is deque:
        return kind, x.maxlen, list(x)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind, None, list(x)
    return None


def flatten(x: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of the pytree `x`, in order, and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten_into(x, leaves)


def _flatten_into(x: Any, leaves: list[Any]) -> Structure:
    parts = _parts(x)
    if parts is None:
        leaves.append(x)
        return Structure(None, None, [])
    kind, context, items = parts
    return Structure(kind, context, [_flatten_into(item, leaves) for item in items])


def map_leaves(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the pytree `x` with ``function(leaf)`` for each leaf."""
    leaves, structure = flatten(x)
    return structure.unflatten([function(leaf) for leaf in leaves])


def broadcast_prefix(prefix: Any, structure: Structure) -> list[Any] | None:
    """Return one leaf of `prefix` for each leaf of `structure`; None if `prefix` is no prefix of it.

    A leaf of `prefix` at the place of a container applies to all leaves in it.
    """
    parts = _parts(prefix)
    if parts is None:
        return [prefix] * structure.leaf_count
    kind, context, items = parts
    if kind is not structure.kind or context != structure.context or len(items) != len(structure.children):
        return None
    found: list[Any] = []
    for item, child in zip(items, structure.children, strict=True):
        inner = broadcast_prefix(item, child)
        if inner is None:
            return None
        found += inner
    return found
