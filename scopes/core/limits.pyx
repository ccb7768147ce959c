# cython: language_level=3, auto_pickle=False
"""Limits of the bytes and members of a scope and the scopes inside it.

Each limit stores an upper bound of the current total. A new member increases the bound, but a member that
ends does not decrease it. The members are counted again when the bound would exceed the limit, or when
members move in. The bound and the members change in C code that runs no Python code, so no other thread sees
one change without the other.
"""

import gc
from weakref import WeakValueDictionary

from libc.stdint cimport int64_t

from scopes.core.disposable cimport Disposable, MemberList, count_limited
from scopes.core.resources cimport add_sizes, members_of

cdef int64_t _UNLIMITED = (<int64_t>1 << 62)

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

    cdef bint is_of(self, MemberList scope) noexcept:
        return self.owner_id == <size_t><void*>scope

    cdef void lift(self) noexcept:
        if self.is_in_force:
            self.is_in_force = False
            count_limited(-1)

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

    cdef int count_with(self, list newcomers, int64_t nbytes, int64_t count) except -1:
        """Count the members and `newcomers`, and raise an error if they exceed the limit.

        The new bounds leave out `nbytes` and `count`, which the caller adds later.
        """
        cdef int64_t bytes_before, members_before, total, members
        cdef dict sizes
        cdef list all_of_them
        for is_collected in (False, True):
            bytes_before, members_before = self.bytes_granted, self.members_granted
            found = {id(x): x for scope in list(self.scopes.values()) for x in members_of(scope)}
            found.update((id(x), x) for x in newcomers)
            all_of_them = list(found.values())
            sizes = {}
            add_sizes(all_of_them, sizes)
            total, members = sum(sizes.values()), len(all_of_them)
            if total <= self.most_bytes and members <= self.most_members:
                self.bytes_bound = total - nbytes + (self.bytes_granted - bytes_before)
                self.members_bound = members - count + (self.members_granted - members_before)
                return 0
            found = all_of_them = None
            if not is_collected:
                gc.collect()  # frees objects that only reference cycles keep
        raise self.refused(newcomers, total, members)

    def refused(self, list newcomers, total, count):
        """Return the error for `newcomers`."""
        subjects = [subject_of(x) for x in newcomers]
        members = [x for scope in list(self.scopes.values()) for x in members_of(scope)]
        held = [(nbytes_of(x), subject_of(x)) for x in members]
        return _refusal(
            self.name, self.limit, self.max_members, total, count, subjects,
            [nbytes_of(x) for x in newcomers], held,
        )


cdef object subject_of(Disposable x):
    return x.subject()


cdef object nbytes_of(x):
    cdef dict sizes = {}
    add_sizes([x], sizes)
    return sum(sizes.values())


cdef int begin_in(MemberList scope) except -1:
    cdef Limits limits
    for limits in scope.limits:
        limits.scopes[<size_t><void*>scope] = scope
        if limits.owner_id == 0:
            limits.owner_id = <size_t><void*>scope
            limits.is_in_force = True
            count_limited(1)
    return 0


cdef int end_in(MemberList scope) except -1:
    cdef Limits limits
    for limits in scope.limits:
        if limits.is_of(scope):
            limits.lift()
    for limits in scope.limits:
        limits.scopes.pop(<size_t><void*>scope, None)
    return 0


cdef int make_room_for(tuple limits, Disposable x) except -1:
    cdef Limits one, full
    cdef int64_t nbytes = nbytes_of(x)
    while True:
        full = None
        for one in limits:
            if not one.has_room(nbytes, 1):
                full = one
                break
        if full is None:
            for one in limits:
                one.grant(nbytes, 1)
            return 0
        full.count_with([x], nbytes, 1)


cdef int make_room_for_all(tuple limits, list members) except -1:
    cdef Limits one
    if not members:
        return 0
    for one in limits:
        if one.is_in_force:
            one.count_with(members, 0, 0)
    return 0
