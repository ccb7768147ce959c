"""The places in the tree of scopes: what was created under each path of names, and how much is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

UNNAMED = "(unnamed)"


class Place:
    """All scopes of one path of names: a loop's 10,000 "step" scopes are one place.

    Each counter changes in one statement without a call, so that no thread sees it half done.
    """

    __slots__ = (
        "alive",
        "bytes_alive",
        "bytes_created",
        "bytes_peak",
        "created",
        "inner",
        "nanoseconds",
        "outer",
        "path",
        "rounds",
    )

    def __init__(self, path: tuple[str, ...], outer: Place | None) -> None:
        self.path = path
        self.outer = outer
        self.inner: dict[str, Place] = {}
        # How often a scope of this path has ended, and how long they were open in all.
        self.rounds = 0
        self.nanoseconds = 0
        # What was created while one of them was the innermost.
        self.created = 0
        self.alive = 0
        # The same with what was created in the places inside; each buffer once, here for its first tensor.
        self.bytes_created = 0
        self.bytes_alive = 0
        self.bytes_peak = 0

    def inside(self, name: str | None) -> Place:
        """Return the place of the scopes called `name` in this one."""
        key = UNNAMED if name is None else name
        return self.inner.get(key) or self.inner.setdefault(key, Place((*self.path, key), self))


def place_of(scope: DisposeScope | None, root: Place) -> Place:
    """Return the place of `scope` by its name and those around it."""
    names: list[str | None] = []
    while scope is not None:
        names.append(scope.name)
        scope = scope._outer
    place = root
    for name in reversed(names):
        place = place.inside(name)
    return place


def charge(place: Place, nbytes: int) -> None:
    """Count the new buffer of so many bytes."""
    at: Place | None = place
    while at is not None:
        at.bytes_created += nbytes
        alive = at.bytes_alive = at.bytes_alive + nbytes
        if alive > at.bytes_peak:
            at.bytes_peak = alive
        at = at.outer


def discharge(place: Place, nbytes: int) -> None:
    """Count the buffer no more."""
    at: Place | None = place
    while at is not None:
        at.bytes_alive -= nbytes
        at = at.outer
