"""Tensors that scopes did not dispose at their end, because something else keeps them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from scopes.foreign.torch.keeping import KEEPERS
from scopes.tracking.paths import UNNAMED

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


class Entry:
    """Counts the tensors that one holder kept from scopes of one name."""

    def __init__(self) -> None:
        self.count = 0
        self.alive: dict[int, weakref.ref[Any]] = {}

    def note(self, x: Any) -> None:
        self.count += 1
        key = id(x)
        self.alive[key] = weakref.ref(x, lambda _: self.alive.pop(key, None))


entries: dict[tuple[str, str], Entry] = {}
# The most rows. Further ones are not recorded, because a longer report is not useful.
_MAX_ENTRIES = 1000


def find(scope: DisposeScope, sought: dict[int, Any], older: int, is_strict: bool) -> dict[int, bool]:
    """Find the tensors in `sought` that outlive `scope`, and record them for ``scopes.torch.kept``.

    The result has their ids, with True for tensors that then have no owner; see ``Adapter.find_kept``.
    """
    found = KEEPERS.find(sought, older, is_strict, hidden=globals())
    for key, (holder, _) in found.items():
        row = holder, scope.name or UNNAMED
        if holder and (row in entries or len(entries) < _MAX_ENTRIES):
            entries.setdefault(row, Entry()).note(sought[key])
    return {key: is_good for key, (_, is_good) in found.items()}
