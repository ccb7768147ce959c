# cython: language_level=3, auto_pickle=False
"""Limits of the bytes and members of a scope and the scopes inside it.

Each limit stores an upper bound of the current total. A new member increases the bound, but a member that
ends does not decrease it. The members are counted again when the bound would exceed the limit, or when
members move in (``scope.pyx`` does). The bound and the members change in C code that runs no Python code, so
no other thread sees one change without the other.
"""

from weakref import WeakValueDictionary

from libc.stdint cimport int64_t

cdef int64_t _UNLIMITED = (<int64_t>1 << 62)

# The number of limits in force, and the function to call when it changes.
cdef Py_ssize_t _in_force = 0
cdef Changed _when_changed = NULL


cdef void _count(Py_ssize_t change) noexcept:
    global _in_force
    _in_force += change
    _when_changed()


cdef Py_ssize_t count_in_force() noexcept:
    return _in_force


cdef void when_changed(Changed function) noexcept:
    global _when_changed
    _when_changed = function


# The functions that parse a size and create the error.
cdef object _parse_size = None
cdef object _refusal = None


def describe_limits_by(parse_size, refusal):
    """Register the functions that parse a size, and that create the error of an exceeded limit."""
    global _parse_size, _refusal
    _parse_size, _refusal = parse_size, refusal


def limits_of(name, limit, max_members):
    """Return the `Limits` for a new scope."""
    cdef Limits made = Limits.__new__(Limits)
    made.name = name
    made.most_bytes = made.most_members = _UNLIMITED
    if limit is not None:
        made.limit = _parse_size(limit, "limit")
        made.most_bytes = min(made.limit, _UNLIMITED)
    if max_members is not None:
        if not isinstance(max_members, int) or isinstance(max_members, bool) or max_members < 0:
            raise ValueError(
                f"max_members must be a whole number of at least 0, not {max_members!r}: it limits how many "
                "objects the scope may own"
            )
        made.max_members = max_members
        made.most_members = min(max_members, _UNLIMITED)
    made.scopes = WeakValueDictionary()
    return made


cdef class Limits:
    """The limits of one scope. They hold for the scopes inside it too, as long as it is open."""

    def __dealloc__(self):
        self.lift()

    cdef bint is_of(self, size_t scope) noexcept:
        return self.owner_id == scope

    cdef void begin(self, size_t scope) noexcept:
        if self.owner_id == 0:
            self.owner_id = scope
            self.is_in_force = True
            _count(1)

    cdef void lift(self) noexcept:
        if self.is_in_force:
            self.is_in_force = False
            _count(-1)

    cdef bint has_room(self, int64_t nbytes, int64_t count) noexcept:
        if not self.is_in_force:
            return True
        return (
            self.bytes_bound + nbytes <= self.most_bytes and self.members_bound + count <= self.most_members
        )

    cdef void grant(self, int64_t nbytes, int64_t count) noexcept:
        self.bytes_bound += nbytes
        self.members_bound += count
        self.bytes_granted += nbytes
        self.members_granted += count

    cdef object refused(self, total, count, list newcomers, list sizes, list held):
        return _refusal(self.name, self.limit, self.max_members, total, count, newcomers, sizes, held)
