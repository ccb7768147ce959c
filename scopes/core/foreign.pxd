"""Objects of other libraries in scopes: the interface for ``cimport``."""

from libc.stdint cimport uint64_t

from scopes.core.births cimport Births
from scopes.core.disposable cimport Disposable, MemberList


cdef class Foreign(Disposable):
    cdef object adapter
    # A weak reference; None after the object was freed.
    cdef object reference
    cdef size_t address
    # The result of the adapter's `end`; None before.
    cdef object ending
    # Whether a scope got it as a new object, not because a user attached it.
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
# Store the number of keepers (see `Adapter.find_kept`) in a new scope.
cdef int store_keeper_count(MemberList scope) except -1
# Whether an adapter knows which objects outlive a scope.
cdef bint has_keepers() noexcept
# Move the members of `scope` that a keeper holds to the outer scope, or detach them.
cdef int move_out_kept(MemberList scope, list members) except -1
# Register `x`, if `births` has a note of it, in the note's scope. Return whether it was registered.
cdef bint notice(x, Births births) except -1
# Make the adapters search for new objects.
cdef int harvest() except -1
