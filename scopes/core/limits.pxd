"""Limits of the bytes and members of scopes: the interface for ``cimport``."""

from libc.stdint cimport int64_t

ctypedef void (*Changed)() noexcept


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

    # Whether it was given to the scope at this address.
    cdef bint is_of(self, size_t scope) noexcept
    # Come into force for the scope at this address, unless it is in force for one around it.
    cdef void begin(self, size_t scope) noexcept
    cdef void lift(self) noexcept
    cdef bint has_room(self, int64_t nbytes, int64_t count) noexcept
    cdef void grant(self, int64_t nbytes, int64_t count) noexcept
    # Return the error for `newcomers` of `sizes`, which exceed the limit together with the members `held`.
    cdef object refused(self, total, count, list newcomers, list sizes, list held)


# The number of limits in force, in all threads.
cdef Py_ssize_t count_in_force() noexcept
# Call `function` when that number has changed.
cdef void when_changed(Changed function) noexcept
