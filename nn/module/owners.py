"""Record which modules own a parameter, buffer or submodule: shared ones are not disposed on replacement."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

# For each value's id: a weak reference to the value, whose callback removes the entry, and weak references to
# its owners.
_owners: dict[int, tuple[ref[object], list[ref[object]]]] = {}


def add_owner(value: object, owner: object) -> None:
    """Record that the module `owner` has registered `value`, once for each name."""
    key = id(value)
    entry = _owners.get(key)
    if entry is None or entry[0]() is not value:
        entry = _owners[key] = ref(value, _remover(key)), []
    entry[1].append(ref(owner))


def remove_owner(value: object, owner: object) -> None:
    """Undo one ``add_owner``."""
    entry = _owners.get(id(value))
    if entry is None:
        return
    for i, weak in enumerate(entry[1]):
        if weak() is owner:
            del entry[1][i]
            return


def owners_of(value: object) -> list[object]:
    """Return the living modules that own `value`, one for each registration."""
    entry = _owners.get(id(value))
    if entry is None:
        return []
    return [owner for owner in [weak() for weak in entry[1]] if owner is not None]


def _remover(key: int) -> Callable[[ref[object]], None]:
    def remove(dead: ref[object]) -> None:
        entry = _owners.get(key)
        if entry is not None and entry[0] is dead:
            del _owners[key]

    return remove
