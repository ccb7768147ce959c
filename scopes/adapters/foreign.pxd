"""Objects of other libraries in scopes: the interface for ``cimport``."""

from libc.stdint cimport uint64_t

from scopes.core.scope cimport Disposable, DisposeScope


cdef class Foreign(Disposable):
    cdef object adapter
    # A weak reference; None after the object was freed.
    cdef object reference
    cdef size_t address
    # The result of the adapter's `end`; None before.
    cdef object ending
    # Whether a scope got it as a new object.
    cdef bint is_noticed
    # Whether it was created inside ``scopes.torch.owning(strict=True)``.
    cdef bint is_strict
    # The number of its birth, if it has no owner and nothing has decided that; else 0.
    cdef uint64_t serial


# Whether there is an adapter for `x`.
cdef bint is_foreign(x)
# The `Foreign` of `x`, or None.
cdef Foreign foreign_of(x)
# The same, but create one without an owner if there is none.
cdef Foreign foreign_for(x)
