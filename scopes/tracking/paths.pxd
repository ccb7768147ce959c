"""The places in the tree of scopes: the interface for ``cimport``."""

from scopes.core.disposable cimport MemberList


cdef class Place:
    cdef readonly tuple path
    cdef readonly Place outer
    cdef readonly dict inner
    # How often a scope of this path has ended, and how long they were open in all.
    cdef readonly long long rounds
    cdef readonly long long nanoseconds
    # What was created while one of them was the innermost.
    cdef readonly long long created
    cdef readonly long long alive
    # The same with what was created in the places inside; each buffer once, here for its first tensor.
    cdef readonly long long bytes_created
    cdef readonly long long bytes_alive
    cdef readonly long long bytes_peak

    # The place of the scopes called `name` in this one.
    cdef Place inside(self, name)
    # Count one that was created here; one less alive; a scope that has ended, and how long it was open.
    cdef void count_created(self) noexcept
    cdef void count_ended(self) noexcept
    cdef void count_round(self, long long nanoseconds) noexcept
    # Count a new buffer of so many bytes, here and in all places around, or remove it from the counts.
    cdef void charge(self, long long nbytes) noexcept
    cdef void discharge(self, long long nbytes) noexcept


# The place of `scope` by its name and those around it.
cdef Place place_of(MemberList scope, Place root)
