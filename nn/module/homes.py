"""Which modules hold a parameter, buffer or module: what another one holds too must outlive a replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable

# By id: a weak reference to the thing itself, whose callback drops the entry, then one for each registration.
_homes: dict[int, tuple[ref[object], list[ref[object]]]] = {}


def enter(x: object, home: object) -> None:
    """Note that the module `home` holds `x`; once for each name."""
    key = id(x)
    entry = _homes.get(key)
    if entry is None or entry[0]() is not x:
        entry = _homes[key] = ref(x, _forgetting(key)), []
    entry[1].append(ref(home))


def leave(x: object, home: object) -> None:
    """Take one note that `home` holds `x` back."""
    entry = _homes.get(id(x))
    if entry is None:
        return
    for place, weak in enumerate(entry[1]):
        if weak() is home:
            del entry[1][place]
            return


def homes_of(x: object) -> list[object]:
    """Return the living modules that hold `x`, one for each registration."""
    entry = _homes.get(id(x))
    if entry is None:
        return []
    return [home for home in [weak() for weak in entry[1]] if home is not None]


def _forgetting(key: int) -> Callable[[ref[object]], None]:
    def forget(gone: ref[object]) -> None:
        entry = _homes.get(key)
        if entry is not None and entry[0] is gone:
            del _homes[key]

    return forget
