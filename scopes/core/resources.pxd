"""Resources of the user in a scope: the interface for ``cimport``."""

from scopes.core.disposable cimport Disposable, MemberList


cdef class Held(Disposable):
    cdef object resource

    cdef void forget(self) noexcept


# Return a new `Held` for `resource`, which is in no scope yet.
cdef Held new_held(resource)
# Register `held` under the address of its resource.
cdef int remember(Held held) except -1
cdef Held held_of(x)
cdef Disposable member_for(x)
# The same, but create a member, which is in no scope yet, if there is none.
cdef Disposable member_to_own(x)
# Return the objects that users have for `members`, without freed ones.
cdef list subjects_of(list members)
cdef int raise_disposed(Disposable x) except -1
# Add `error` to `errors`, which is None, one error or a list of several. Return the result.
cdef object noted(errors, error)
# Dispose the members of the ended `scope`, newest first. Add their errors to `errors`, as `noted` does.
cdef object dispose_members(MemberList scope, errors)
# Raise the errors that `noted` returned.
cdef int raise_all(errors, when) except -1
# The members of `scope`, oldest first.
cdef list members_of(MemberList scope)
# Add to `sizes` a value that identifies the memory of each of `members`, with its size in bytes.
cdef int add_sizes(list members, dict sizes) except -1
