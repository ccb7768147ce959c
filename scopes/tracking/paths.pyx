"""Nodes of the tree of scopes: creations and living memory of each path of names."""

from scopes.core.disposable cimport MemberList

UNNAMED = "(unnamed)"


cdef class Place:
    """Node for all scopes with one path of names: a loop's 10,000 "step" scopes are one place.

    Each counting method is atomic: it calls no Python code, so no thread sees a partial update.
    """

    def __init__(self, tuple path not None, Place outer):
        self.path = path
        self.outer = outer
        self.inner = {}

    cdef Place inside(self, name):
        key = UNNAMED if name is None else name
        found = self.inner.get(key)
        return self.inner.setdefault(key, Place((*self.path, key), self)) if found is None else found

    cdef void count_created(self) noexcept:
        self.created += 1
        self.alive += 1

    cdef void count_ended(self) noexcept:
        self.alive -= 1

    cdef void count_round(self, long long nanoseconds) noexcept:
        self.rounds += 1
        self.nanoseconds += nanoseconds

    cdef void charge(self, long long nbytes) noexcept:
        cdef Place at = self
        while at is not None:
            at.bytes_created += nbytes
            at.bytes_alive += nbytes
            if at.bytes_alive > at.bytes_peak:
                at.bytes_peak = at.bytes_alive
            at = at.outer

    cdef void discharge(self, long long nbytes) noexcept:
        cdef Place at = self
        while at is not None:
            at.bytes_alive -= nbytes
            at = at.outer


cdef Place place_of(MemberList scope, Place root):
    names = []
    while scope is not None:
        names.append(scope.name)
        scope = scope.outer
    place = root
    for name in reversed(names):
        place = place.inside(name)
    return place
