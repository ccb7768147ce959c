"""Objects that keep what they hold beyond scopes, such as modules: the interface for ``cimport``."""

from scopes.core.owning cimport OwningList

# The number of keepers so far. A scope stores it when it opens.
cdef Py_ssize_t keeper_count() noexcept
# Whether a keeper may hold members.
cdef bint is_anything_held() noexcept
# Move the members of `scope` that keepers older than it hold to the outer scope, or detach them. Skip those
# with ids in `but`; None skips none.
cdef int move_out_held(OwningList scope, set but) except -1
