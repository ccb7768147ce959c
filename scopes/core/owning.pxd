"""How members enter and leave a scope: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable, MemberList


cdef class OwningList(MemberList):
    # Raise the error that the ended scope can't be `what`, such as "attached to".
    cdef int raise_ended(self, what) except -1
    # Own `members` from now on, all or none; count them as attached, unless `counters` is None.
    cdef int take_over(self, list members, list counters) except -1
    # Keep the `Held` objects among `members` alive, all or none. If a resource has one already, use that.
    cdef int hold(self, list members) except -1
    # Detach the `members` of this scope: no scope owns them then.
    cdef void release_members(self, list members, list counters) noexcept
    # Move the `members` of this scope to `target`.
    cdef int hand_over(self, list members, OwningList target) except -1
