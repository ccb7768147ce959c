"""Nodes of the tree of scopes: the interface for ``cimport``."""

from scopes.core.disposable cimport MemberList


cdef class Place:
    cdef readonly tuple path
    cdef readonly Place outer
    cdef readonly dict inner
    # The number of ended scopes of this path, and the time that they were open in total.
    cdef readonly long long rounds
    cdef readonly long long nanoseconds
    # The number of disposables that such a scope owned at their creation, and how many of them are alive.
    cdef readonly long long created
    cdef readonly long long alive
    # The bytes of these disposables and those of inner places. A buffer counts at its first tensor's place.
    cdef readonly long long bytes_created
    cdef readonly long long bytes_alive
    cdef readonly long long bytes_peak

    # Return the place for scopes called `name` inside this one.
    cdef Place inside(self, name)
    # Count a created disposable, an ended one, and an ended scope with the time that it was open.
    cdef void count_created(self) noexcept
    cdef void count_ended(self) noexcept
    cdef void count_round(self, long long nanoseconds) noexcept
    # Add the bytes of a new buffer here and in all outer places, or remove them.
    cdef void charge(self, long long nbytes) noexcept
    cdef void discharge(self, long long nbytes) noexcept


# Return the place of `scope`, by its name and the names of its outer scopes.
cdef Place place_of(MemberList scope, Place root)
