"""How members come to a scope and leave it: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable, MemberList


cdef class OwningList(MemberList):
    # Raise the error of a scope that has ended, asked for `what`.
    cdef int raise_ended(self, what) except -1
    # Own `members` from now on, all or none; count them as attached, unless `counters` is None.
    cdef int take_over(self, list members, list counters) except -1
    cdef int hold(self, list members) except -1
    # Leave those of `members` that are here without an owner.
    cdef void let_go(self, list members, list counters) noexcept
    # Give those of `members` that are here to `target`.
    cdef int hand_over(self, list members, OwningList target) except -1
