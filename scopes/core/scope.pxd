"""The scope: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable
from scopes.core.limits cimport Limits
from scopes.core.owning cimport OwningList


cdef class DisposeScope(OwningList):
    cdef object __weakref__

    cdef int end(self) except -1
    cdef list collect(self)
    cdef int complete(self, what) except -1
    cdef object size(self)
    cdef Limits own_limits(self)
