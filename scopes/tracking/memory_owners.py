"""What own memory: classes of modules, optimizers and data sets, and how tensors of a library keep it.

Libraries register here what the table of owners (`scopes.reports.owners`) reads. This module imports nothing,
so that an adapter does not load the reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class TensorClass(NamedTuple):
    """How the tensors of one library keep memory. The functions run no code of the user."""

    #: Returns a key that identifies the memory of a tensor, and its bytes.
    footprint: Callable[[Any], tuple[int, int]]
    #: Returns the gradient of a tensor, or None.
    gradient: Callable[[Any], Any]
    #: Returns an object that stands for the memory of a tensor and keeps nothing alive, or None.
    watch: Callable[[Any], Any]
    #: Returns for each of several results of `watch` whether its memory is alive, with or without a tensor.
    are_alive: Callable[[list[Any]], list[bool]]
    #: Whether new memory may have the key of freed memory that is watched.
    reuses_keys: bool


# The role of each class: "module", "optimizer" or "data".
roles: dict[type, str] = {}
tensor_classes: dict[type, TensorClass] = {}
# Functions that return caches of free memory: their names and bytes.
cache_figures: list[Callable[[], Iterable[tuple[str, int]]]] = []


def note_role(kind: type, role: str) -> None:
    """Register that instances of `kind` are modules, optimizers or data: "module", "optimizer", "data"."""
    roles[kind] = role


def note_tensors(kind: type, functions: TensorClass) -> None:
    """Register how instances of `kind` keep memory, also those that tracking does not know."""
    tensor_classes[kind] = functions


def tensor_class_of(x: object) -> TensorClass | None:
    """Return what is registered for the class of `x`, or None. Runs no code of the user."""
    for kind in type(x).__mro__:
        for base, found in tensor_classes.items():
            if base is kind:  # not a look-up, because the class of the class may define `__hash__`
                return found
    return None


def list_caches_by(function: Callable[[], Iterable[tuple[str, int]]]) -> None:
    """Register a function that returns caches of free memory, with their names and bytes."""
    cache_figures.append(function)
