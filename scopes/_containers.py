"""What is disposable, and finding it inside lists, dicts, dataclasses, modules."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from scopes.core.scoped import Scoped


@runtime_checkable
class Disposable(Protocol):
    """Anything with ``dispose()``."""

    def dispose(self) -> object:
        """Give back what is held; a second call does nothing."""


@runtime_checkable
class Closable(Protocol):
    """Anything with ``close()``: what a scope can end when it is attached by hand."""

    def close(self) -> object:
        """Give back what is held; a second call does nothing."""


_SEQUENCES = (list, tuple, set, frozenset, deque)
# Most of what is passed along in a training step; looking these up costs 20 ns instead of 500.
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})


def is_disposable(x: object) -> bool:
    """Tell whether instances of `x`'s class have ``dispose()``; a class itself is no disposable."""
    return callable(getattr(type(x), "dispose", None))


def is_closable(x: object) -> bool:
    """Tell whether instances of `x`'s class have ``close()``."""
    return callable(getattr(type(x), "close", None))


def find(objects: Iterable[object], wanted: Callable[[object], bool], *, inside: bool) -> list[object]:
    """Return all that is `wanted` in any nesting of containers, each once, in order.

    With `inside`, what a found object holds itself is looked through too: a module tells that by
    ``__disposables__()``, which returns disposables, or containers of them. The walk keeps its own stack, so
    that neither depth nor cycles matter.
    """
    found: list[object] = []
    # Holds what it has seen: a container made on the fly would leave its id to the next one.
    seen: dict[int, object] = {}
    stack = list(objects)
    stack.reverse()
    while stack:
        x = stack.pop()
        if type(x) in _PLAIN or id(x) in seen:
            continue
        seen[id(x)] = x
        if wanted(x):
            found.append(x)
            if not inside:
                continue
        held = _held(x)
        held.reverse()
        stack += held
    return found


def _held(x: object) -> list[object]:
    tell = getattr(type(x), "__disposables__", None)
    if tell is not None:
        return list(tell(x))
    if isinstance(x, Scoped):
        return []
    if isinstance(x, _SEQUENCES):
        return list(x)
    if isinstance(x, Mapping):
        return [part for item in x.items() for part in item]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [getattr(x, field.name, None) for field in dataclasses.fields(x)]
    return []
