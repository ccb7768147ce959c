"""The members of modules: parameters, buffers and other modules, which reports show as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scopes._shared.naming import set_module

# For each class of modules, a function that returns the members of an instance by name.
_members: dict[type, Callable[[Any], Iterable[tuple[str, Any]]]] = {}


@set_module("scopes.lowlevel")
def show_members(kind: type, members: Callable[[Any], Iterable[tuple[str, Any]]]) -> None:
    """Make reports show members of an instance `x` of `kind` as attributes: the pairs of ``members(x)``.

    Each pair has a name and a value. Reports treat members of one module as alike: a list of models holds all
    parameters of a line, and not one of them.

    Examples
    --------
    >>> from scopes.tracking.members import show_members
    >>> class Layers:
    ...     def __init__(self, *layers):
    ...         self._layers = dict(enumerate(layers))
    >>> show_members(Layers, lambda layers: layers._layers.items())
    """
    _members[kind] = members


def members_of(x: object) -> Iterator[tuple[str, Any]]:
    """Yield the members of the module `x` with their names, or nothing if it is no module."""
    for kind in type(x).__mro__:
        if kind in _members:
            yield from [(str(name), value) for name, value in list(_members[kind](x))]
            return
