"""Whom a scope may own, oldest first. Who really owns an object, the object knows (``_scope``).

An object of ours is entered by a weak reference without a callback, so that its end costs a scope nothing.
Entries of objects that are gone, or owned elsewhere by now, stay until the next look for them: the young
ones are looked at when there are so many, all of them when as many were entered since the last time.

A new object is entered by the lines below, in the place of which a call would cost a tenth of a small op:

    entry = ref(x)
    # From here on without a call: no other thread comes between.
    left = scope._left = scope._left - 1
    if left >= 0:
        scope._young[left] = entry

As in `scopes.core.tallies`: CPython hands the GIL over at calls and backward jumps only.
"""

from __future__ import annotations

from operator import call
from typing import Any

# Most scopes are those of a step or a function, with few tensors; a long one pays 8 bytes for each place.
FIRST = 16
FIRST_PLACES = (None,) * FIRST
# Numbers up to 256 are there already; to make larger ones costs 10 ns at each entry.
_PLACES = 256
# What a scope has before its first places are full, and after its end: to make lists costs an empty scope.
NO_MEMBERS: list[Any] = []
NO_PLACES: list[Any] = []


class Entries:
    """The entries of a scope."""

    __slots__ = ("_is_looking", "_left", "_looked_at", "_members", "_since", "_young")

    # None once the scope has ended.
    _members: list[Any] | None
    # The youngest, from the end of the list to its start; as many places from its start are left, or none.
    _young: list[Any]
    _left: int

    # How many members were there after the last look at them, and how many were entered since then. Set when
    # the first places are full.
    _looked_at: int
    _since: int
    _is_looking: bool

    def _enter(self, entry: Any) -> None:
        """Enter an object that says already that this scope owns it."""
        while self._members is not None:
            # From here on without a call.
            left = self._left = self._left - 1
            if left >= 0:
                self._young[left] = entry
                return
            self._make_places()

    def _make_places(self) -> None:
        """Put the young entries to the others; nothing happens when another thread did, or at the end."""
        members, young = self._members, self._young
        if members is None or self._left > 0:
            return
        places: list[Any] = [None] * _PLACES
        if members is NO_MEMBERS:
            members = []
            # Without a call or a new container between the look and the changes.
            if self._members is not NO_MEMBERS:
                return  # another thread was quicker, or has ended the scope; or a finalizer, just now
            self._members = members
            self._looked_at = 0
            self._since = 0
            self._is_looking = False
        # First here, then no more there: who asks meanwhile finds some twice, and none missing.
        members += young[::-1]
        # From here on without a call.
        if self._young is young and self._members is members:
            self._young = places
            self._left = _PLACES
        self._look_at(members)

    def _look_at(self, members: list[Any]) -> None:
        """Let go of entries of those that are gone, or owned elsewhere."""
        if self._is_looking:
            return  # on another thread, or further down on this one, in a finalizer
        self._is_looking = True
        try:
            end = len(members)
            self._since += end - self._looked_at
            start = self._looked_at
            if self._since >= start:
                start = self._since = 0
            x = None
            kept = [entry for entry in members[start:end] if (x := entry()) is not None and x._scope is self]
            del x
            members[start:end] = kept
            self._looked_at = start + len(kept)
        finally:
            self._is_looking = False

    def _there(self) -> list[Any]:
        """Return what ``there`` does for this scope; nobody once it has ended."""
        members, young, left = self._members, self._young, self._left
        return [] if members is None else there(members, young, left)


def there(members: list[Any], young: list[Any], left: int) -> list[Any]:
    """Return who was entered, oldest first, and None for those that are gone.

    Some may be there twice, and some owned elsewhere by now.
    """
    # In one go: an object may be gone between two looks at its entry.
    return list(map(call, members + young[left if left > 0 else 0 :][::-1]))
