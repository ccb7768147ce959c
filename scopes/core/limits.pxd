"""Limits of the bytes and members of scopes: the interface for ``cimport``."""

from libc.stdint cimport int64_t

from scopes.core.disposable cimport Disposable, MemberList


cdef class Limits:
    # The scope's name, for errors.
    cdef object name
    # The limits that the user passed; None: no limit.
    cdef readonly object limit
    cdef readonly object max_members
    cdef int64_t most_bytes, most_members
    # Upper bounds of the bytes and members of the scopes, which were exact at the last count.
    cdef int64_t bytes_bound, members_bound
    # The totals ever admitted. A count adds the part that was admitted while it ran.
    cdef int64_t bytes_granted, members_granted
    # Weak references to the scope and the open scopes inside it, by id.
    cdef object scopes
    cdef size_t owner_id
    cdef bint is_in_force

    cdef bint is_of(self, MemberList scope) noexcept
    cdef void lift(self) noexcept
    cdef bint has_room(self, int64_t nbytes, int64_t count) noexcept
    cdef void grant(self, int64_t nbytes, int64_t count) noexcept
    cdef int count_with(self, list newcomers, int64_t nbytes, int64_t count) except -1


# Called when `scope` opens. Then its limits begin to count its members.
cdef int begin_in(MemberList scope) except -1
# Called when `scope` has ended.
cdef int end_in(MemberList scope) except -1
# Make room for the new `x`, or raise an error.
cdef int make_room_for(tuple limits, Disposable x) except -1
# The same for `members` that move in. Members that are already inside need no room.
cdef int make_room_for_all(tuple limits, list members) except -1
