"""What a scope may own, the list where it owns it, and the current scope: the interface for ``cimport``."""

from cpython.object cimport PyObject

from scopes.core.counters cimport Counters


# A member's place in the list of its scope. The pointers are raw: a member leaves before it is freed.
cdef struct Link:
    Link* older
    Link* newer
    # NULL if it is in no list.
    Members* owner
    # False until its object is registered. A subclass may forget to do so.
    bint is_registered
    # Outside of lists: it counts as disposed in a scope, as part of what was there, or in its deallocation.
    bint was_in


# The list of a scope's members.
cdef struct Members:
    # The link of the list itself. Its older neighbour is the newest member.
    Link ring
    Py_ssize_t count
    # From the scope's creation to its end.
    bint is_open
    # The scope that owns the members, as a borrowed reference.
    PyObject* scope


cdef class MemberList:
    """The part of a scope that its members refer to."""

    cdef Members members
    # For reports and errors.
    cdef public object name
    # The scope around it, which may have ended.
    cdef MemberList outer
    # Objects that it keeps alive for members that are resources of the user; None if there are none yet.
    cdef set held
    # The place where it was opened; see `Foreign.release`.
    cdef unsigned long thread
    # Its limits and those of the scopes around it, or None.
    cdef tuple limits
    # How many keepers of other libraries' objects were known when it was opened; see `move_out_kept`.
    cdef Py_ssize_t keepers

    # Hand what this owns among `xs` to `target`, or outward; None detaches. Ended: nothing, or an error.
    # Objects in which nothing is found: a warning that names the method `call`, unless that is None.
    cdef int move(
        self, tuple xs, MemberList target, bint outward, bint may_have_ended, call=*
    ) except -1
    # Make room for the new `x` within `limits`, or raise an error.
    cdef int make_room(self, Disposable x) except -1


cdef class Disposable:
    cdef Link link
    # The scope that owns this; after its end, for errors, the scope whose end disposed this; or None.
    cdef MemberList scope
    # Where this counts as alive. None: not created yet, disposed, or its count went on with another object.
    cdef Counters counters
    cdef object __weakref__

    # Give back what is held: the method that a subclass in C overrides. Called once, when the object has left
    # its scope and is counted as disposed. It may raise. The default calls the Python method `_release`.
    cdef int release(self) except -1
    # What users know this as: itself, or what it stands for; None if that has gone.
    cdef object subject(self)
    # Leave the scope and count as finalized, unless that has happened. Runs no Python code. It must be the
    # first line of each `__dealloc__` that may run Python code: no scope may still list the object then.
    cdef void retire(self) noexcept


# The last step of creation: count `x`, add it to the current scope, notify the observer.
cdef int register_new(Disposable x) except -1
# The same for objects that no scope owns: gradients, the state of an optimizer.
cdef int register_unowned(Disposable x) except -1
# The same for an object that counts as a `kind`, the class of the object that it represents.
cdef int register_as(Disposable x, type kind, bint is_owned) except -1
# The same for an object that was created earlier and is found now. No limit refuses it.
cdef int register_late(Disposable x, type kind, bint is_owned) except -1
# The same, into `scope` or its next outer one that is open. Observers do not see it.
cdef int register_in(Disposable x, type kind, MemberList scope) except -1
# Let `taker`, which was never registered, count on for `giver`. No counter moves; `giver` keeps its place.
cdef void hand_over_count(Disposable giver, Disposable taker) noexcept
# Put `taker`, which is alive, where `giver` is in its open scope, and tell whether there was such a scope. No
# counter moves.
cdef bint hand_over_place(Disposable giver, Disposable taker) noexcept
# Does the same as `x.dispose()`.
cdef int dispose_one(Disposable x) except -1

# The innermost scope of this context that has not ended, or None.
cdef MemberList current_scope()
# The scope that the context names, which may have ended, or None. Runs no Python code.
cdef MemberList current_scope_or_ended()
# The open scope that owns `x`, or None.
cdef MemberList owner_of(Disposable x)

# For `scopes.core.scope`.
cdef MemberList list_of(Disposable x)
cdef MemberList outer_of(MemberList scope)
cdef int make_current(MemberList scope) except -1
cdef PyObject* member_at(Link* link) noexcept nogil
cdef Disposable promoted(PyObject* x)
cdef void link_newest(Disposable x, MemberList scope) noexcept
cdef void unlink(Link* link) noexcept nogil
cdef bint is_current(MemberList scope) except -1
cdef bint is_observed() noexcept
# Count the scopes with limits that are open.
cdef void count_limited(Py_ssize_t change) noexcept
# Call the functions that follow whether births are observed.
cdef int tell_watching() except -1
cdef int tell_opened(MemberList scope) except -1
# `x` was changed in place by an operation of its library.
cdef int tell_written(x) except -1
cdef int tell_closed(MemberList scope) except -1
