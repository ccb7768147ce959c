"""Resources of the user's own in a scope: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable, MemberList


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
# Return `errors` and one more `error`: None for none, one by itself, several in a list.
cdef object noted(errors, error)
# Dispose the members of `scope`, which has ended, newest first; return `errors` and theirs, as `noted`.
cdef object dispose_members(MemberList scope, errors)
# Raise what was `noted`.
cdef int raise_all(errors, when) except -1
# The members of `scope`, oldest first.
cdef list members_of(MemberList scope)
# Add to `sizes` what tells the memory of each of `members` from other memory, with its bytes.
cdef int add_sizes(list members, dict sizes) except -1
