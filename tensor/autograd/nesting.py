"""Nested lists, tuples and dicts of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DEEPEST = 100


def map_nested(x: Any, change: Callable[[Any], Any], name: str, depth: int = 0) -> Any:
    """Return a copy of nested lists, tuples and dicts with `change` applied to all their items.

    Raises
    ------
    ValueError
        If they are nested more than 100 levels deep, or contain themselves. The message calls them `name`.

    Examples
    --------
    >>> import tensor
    >>> map_nested([1, {"a": (2, 3)}], lambda n: n * 10, "numbers")
    [10, {'a': (20, 30)}]
    """
    kind = type(x)
    is_named = isinstance(x, tuple) and hasattr(x, "_fields")
    if not (is_named or kind is list or kind is tuple or kind is dict):
        return change(x)
    if depth > _DEEPEST:
        raise ValueError(
            f"{name} are nested more than {_DEEPEST} levels deep, or contain themselves: "
            "pass tensors, or lists, tuples and dicts of them"
        )
    if kind is dict:
        return {key: map_nested(item, change, name, depth + 1) for key, item in x.items()}
    parts = [map_nested(item, change, name, depth + 1) for item in x]
    return kind(*parts) if is_named else kind(parts)
