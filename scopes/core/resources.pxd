"""Resources of the user's own in a scope: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable


cdef class Held(Disposable):
    cdef object resource

    cdef void forget(self) noexcept


# A new one for `resource`, which no scope holds yet.
cdef Held new_held(resource)
# Let `held` be found by its resource from now on.
cdef int remember(Held held) except -1
cdef Held held_of(x)
cdef Disposable member_for(x)
# The same, made if nothing stands for it yet.
cdef Disposable new_member_for(x)
# What users know as `members`, without those that have gone meanwhile.
cdef list subjects_of(list members)
cdef int raise_disposed(Disposable x) except -1
cdef int raise_all(list errors, when) except -1
