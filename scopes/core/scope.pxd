"""The scope: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable, MemberList


cdef class DisposeScope(MemberList):
    cdef object __weakref__

    cdef int end(self) except -1
    cdef int raise_ended(self, what) except -1
    cdef list collect(self)
    cdef int complete(self, what) except -1
    cdef object size(self)
    cdef int take_over(self, list members, list counters) except -1
    cdef void let_go(self, list members, list counters) noexcept
    cdef int hold(self, list members) except -1
    cdef int hand_over(self, list members, DisposeScope target) except -1
