"""Objects of other libraries in scopes: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable


cdef class Foreign(Disposable):
    cdef object adapter
    # Weak; None when the object has gone.
    cdef object reference
    cdef size_t address
    # What the adapter said at its end; None before.
    cdef object ending


# Whether there is an adapter for `x`.
cdef bint is_foreign(x)
# What stands for `x` in scopes, or None.
cdef Foreign foreign_of(x)
# The same, made without an owner when there is none yet.
cdef Foreign foreign_for(x)
# Let adapters that see new objects late look for them now.
cdef int harvest() except -1
