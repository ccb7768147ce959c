"""Objects of other libraries in scopes: the interface for ``cimport``."""

from scopes.core.births cimport Births
from scopes.core.disposable cimport Disposable, MemberList


cdef class Foreign(Disposable):
    cdef object adapter
    # Weak; None when the object has gone.
    cdef object reference
    cdef size_t address
    # What the adapter said at its end; None before.
    cdef object ending
    # Whether a scope owns it since it was noticed, not since a user attached it.
    cdef bint is_noticed
    # Whether only modules and optimizers may keep it, as parts of themselves.
    cdef bint is_strict


# Whether there is an adapter for `x`.
cdef bint is_foreign(x)
# What stands for `x` in scopes, or None.
cdef Foreign foreign_of(x)
# The same, made without an owner when there is none yet.
cdef Foreign foreign_for(x)
# Note in a new scope how many keepers there are.
cdef int note_keepers(MemberList scope) except -1
# Whether an adapter knows who keeps its objects.
cdef bint has_keepers() noexcept
# Take out of `scope` those of `members` that somebody else keeps.
cdef int spare_kept(MemberList scope, list members) except -1
# Let the scope of its birth own `x`, if that is among `births`; tell whether it does.
cdef bint notice(x, Births births) except -1
# Let adapters that see new objects late look for them now.
cdef int harvest() except -1
