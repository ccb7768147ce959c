"""Scope members, the list of a scope's members, and the current scope: the interface for ``cimport``."""

from cpython.object cimport PyObject
from libcpp cimport bool as flag

from scopes.core.counters cimport Counters


# A member's place in the list of its scope, with raw pointers: a member leaves the list before it is freed.
cdef struct Link:
    Link* older
    Link* newer
    # NULL if it is in no list.
    Members* owner
    # False until its object is registered, which a subclass may forget.
    flag is_registered
    # Whether an object in no list counts as disposed in a scope: it was a member when it was disposed, it is
    # a part of such a compound, or its scope ended during its deallocation.
    flag counts_in_scope
    # Whether a user attached it to its scope, so that it ends with the scope, whatever else holds it.
    flag is_attached


# The list of a scope's members.
cdef struct Members:
    # The sentinel of the ring: `older` is the newest member, `newer` the oldest one.
    Link head
    Py_ssize_t count
    # True from the scope's creation to its end.
    bint is_open
    # The scope that owns the members, as a borrowed reference.
    PyObject* scope


cdef class MemberList:
    """The part of a scope that its members refer to."""

    cdef Members members
    # The scope's name, for reports and errors.
    cdef public object name
    # The scope around it, which may have ended.
    cdef MemberList outer
    # The `Held` objects of attached resources. This set keeps them alive; None if there are none yet.
    cdef set held
    # The ident of the thread that opened it; see `Foreign.release`.
    cdef unsigned long thread
    # Its limits and those of the scopes around it, or None.
    cdef tuple limits
    # The number of keepers (modules, optimizers, ...) when it was opened; see `Adapter.find_kept`.
    cdef Py_ssize_t keepers
    # The same for keepers of objects of this library; see `keeping.pyx`.
    cdef Py_ssize_t older

    # Move the members among `xs` to `target`, or to the outer scope if `outward`; None detaches them. If this
    # scope has ended, do nothing if `may_have_ended`, else raise an error. An object in which nothing is
    # found gives a warning that names the method `call`, unless `call` is None.
    cdef int move(
        self, tuple xs, MemberList target, bint outward, bint may_have_ended, call=*
    ) except -1
    # Make room for the new `x` within `limits`, or raise an error.
    cdef int make_room(self, Disposable x) except -1


cdef class Disposable:
    cdef Link link
    # The scope that owns this, or the ended scope that disposed this (for errors), or None.
    cdef MemberList scope
    # The counters in which this counts as alive. None if it is not registered, is disposed, or has passed its
    # count to another object.
    cdef Counters counters
    cdef object __weakref__

    # Release the memory. Subclasses in Cython override this. Called once, after the object has left its scope
    # and counts as disposed. It may raise. The default calls the Python method `_release`.
    cdef int release(self) except -1
    # Return the object that users have: this, or the object that it represents; None if that was freed.
    cdef object subject(self)
    # Leave the scope, and count as finalized unless disposed. Runs no Python code. Each `__dealloc__` that
    # may run Python code must call this first, so that no scope lists the object meanwhile.
    cdef void retire(self) noexcept


# The last step of creation: count `x`, add it to the current scope, notify the observer.
cdef int register_new(Disposable x) except -1
# The same for an object that no scope owns: a gradient, the state of an optimizer.
cdef int register_unowned(Disposable x) except -1
# The same, but count `x` under the class `kind`: that of the object that `x` represents. `site` is the line
# that created it, if that is known.
cdef int register_as(Disposable x, type kind, bint is_owned, site=*) except -1
# The same as `register_as` for an object that was created earlier and is found now. No limit refuses it.
cdef int register_late(Disposable x, type kind, bint is_owned, site=*, unsigned long thread=*) except -1
# Give the count of `giver` to `taker`, which was never registered. No counter changes. `giver` stays in its
# list.
cdef void hand_over_count(Disposable giver, Disposable taker) noexcept
# Replace `giver` in its open scope by `taker`. Return False if `giver` has no open scope, or `taker` is
# disposed. No counter changes.
cdef bint hand_over_place(Disposable giver, Disposable taker) noexcept
# Does the same as `x.dispose()`.
cdef int dispose_one(Disposable x) except -1

# The innermost scope of this context that has not ended, or None.
cdef MemberList current_scope()
# The value of the context variable: a scope, which may have ended, or None. Runs no Python code.
cdef MemberList current_scope_or_ended()
# The open scope that owns `x`, or None.
cdef MemberList owner_of(Disposable x)

# For `scopes.core.scope`.
cdef MemberList list_of(Disposable x)
cdef MemberList outer_of(MemberList scope)
cdef int make_current(MemberList scope) except -1
cdef PyObject* member_at(Link* link) noexcept nogil
cdef Disposable reference_if_alive(PyObject* x)
cdef void link_newest(Disposable x, MemberList scope) noexcept
cdef void unlink(Link* link) noexcept nogil
cdef bint is_current(MemberList scope) except -1
cdef bint is_observed() noexcept
# Add to the number of open scopes with limits.
cdef void count_limited(Py_ssize_t change) noexcept
# Call the functions in `watch_callbacks`.
cdef int notify_watching() except -1
cdef int notify_opened(MemberList scope) except -1
# Notify the observer of the new `x`: created now, or by the line `site` of `thread` (0: this thread).
cdef int notify_created(Disposable x, site, unsigned long thread) except -1
# Notify the observer that an operation of its library changed `x` in place.
cdef int notify_written(x) except -1
cdef int notify_closed(MemberList scope) except -1
