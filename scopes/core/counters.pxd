"""The counts of each type and creating thread: the interface for ``cimport``."""

from libc.stdint cimport int64_t
from libcpp.atomic cimport atomic


cdef class Counters:
    """The counts of one type and one creating thread, including objects that other threads dispose."""

    cdef atomic[int64_t] created_in
    cdef atomic[int64_t] created_outside
    cdef atomic[int64_t] disposed_in
    cdef atomic[int64_t] disposed_outside
    cdef atomic[int64_t] attached
    cdef atomic[int64_t] detached
    cdef atomic[int64_t] finalized
    cdef type kind
    # A counted reference to the creating thread's `thread_entry`; NULL in a block that sums ended threads.
    cdef void* thread

    cdef int64_t live(self) noexcept


# The calling thread's block for objects of `kind`.
cdef Counters counters_of(type kind)
