"""Who is on a storage: the tensors and handles that hold arrays over it.

They are entered by weak references without callbacks, as the members of scopes are (`scopes.core.entries`),
so that a view's end costs its storage nothing: who is gone, or has left, stays entered until the next look.
"""

from __future__ import annotations

from sys import maxsize
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Iterator

# How many there may be before those are looked for that are gone.
FEW = 32


class Members:
    """The entries of those on a storage. Who really is on it says so by its seat."""

    __slots__ = ("members", "most")

    members: list[ref[Any]]
    # So many without a look. Both are set by the subclass.
    most: int

    def enter(self, x: Any) -> None:
        """Enter `x`, which says already that it is here, and has not been before."""
        # The same lines stand in _views.over, where the call would cost 50 ns of 900.
        members = self.members
        members.append(ref(x))
        if len(members) > self.most:
            self.look_through()

    def holders(self) -> Iterator[Any]:
        """Yield the members that are alive and hold an array."""
        for entry in list(self.members):
            x = entry()
            if x is not None and x._array is not None and self._seats(x):
                yield x

    def look_through(self) -> None:
        """Let go of the entries of those that are gone."""
        # From here to the next comment without a call: no other thread comes between.
        if self.most == maxsize:
            return  # on another thread, or further down on this one, in a finalizer, somebody looks
        self.most = maxsize
        # What is entered meanwhile comes behind.
        members = kept = self.members
        try:
            end = len(members)
            kept = [entry for entry in members[:end] if (x := entry()) is not None and self._seats(x)]
            members[:end] = kept
        finally:
            self.most = max(FEW, 2 * len(kept))

    def _seats(self, x: Any) -> bool:
        seat = x._seat
        return seat is not None and seat.storage is self
