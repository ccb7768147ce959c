"""A scope, its members, and how they end: the interface for ``cimport``."""

from cpython.object cimport PyObject
from libcpp cimport bool as flag

from scopes.core.counters cimport Counters
from scopes.core.limits cimport Limits


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


cdef class DisposeScope


# Base class of objects that scopes own: `Disposable` in the source says how to write a subclass.
cdef class Disposable:
    cdef Link link
    # The scope that owns this, or the ended scope that disposed this (for errors), or None.
    cdef DisposeScope scope
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


# A resource of the user in a scope.
cdef class Resource(Disposable):
    cdef object resource

    cdef void forget(self) noexcept


# Owns the objects that are created while it is current.
cdef class DisposeScope:
    cdef Members members
    # The scope's name, for reports and errors.
    cdef public object name
    # The scope around it, which may have ended.
    cdef DisposeScope outer
    # The `Resource` objects of attached resources. This set keeps them alive; None if there are none yet.
    cdef set held
    # The ident of the thread that opened it.
    cdef unsigned long thread
    # Its limits and those of the scopes around it, or None.
    cdef tuple limits
    # The number of keepers when it was opened; see `keepers.pyx`.
    cdef Py_ssize_t older
    # The result of `Hooks.scope_opens`.
    cdef object mark
    # Whether it is the scope of a generator, and the generator's current scope at the last yield; None if
    # that was this scope or the consumer's.
    cdef bint is_of_generator
    cdef DisposeScope innermost
    cdef object __weakref__

    # Dispose all members, unless it has ended.
    cdef int end(self) except -1
    # Return the members, oldest first.
    cdef list collect(self)
    # Register the new objects of adapters. Raise an error that the ended scope can't be `what`.
    cdef int complete(self, what) except -1
    # Return the bytes of the members.
    cdef object size(self)
    # Return the limits that were given to this scope, or None.
    cdef Limits own_limits(self)
    # Move the members among `xs` to `target`, or to the outer scope if `outward`; None detaches them. If this
    # scope has ended, do nothing if `may_have_ended`, else raise an error. An object in which nothing is
    # found gives a warning that names the method `call`, unless `call` is None.
    cdef int move(
        self, tuple xs, DisposeScope target, bint outward, bint may_have_ended, call=*
    ) except -1
    # Raise the error that the ended scope can't be `what`, such as "attached to".
    cdef int raise_ended(self, what) except -1
    # Own `members` from now on, all or none; count them as attached, unless `counters` is None.
    cdef int take_over(self, list members, list counters) except -1
    # Keep the `Resource` objects among `members` alive, all or none. If a resource has one already, use that.
    cdef int hold(self, list members) except -1
    # Detach the `members` of this scope: no scope owns them then.
    cdef void release_members(self, list members, list counters) noexcept
    # Move the `members` of this scope to `target`.
    cdef int hand_over(self, list members, DisposeScope target) except -1


# What adapters of other libraries add to scopes. The methods here do nothing: adapters override them.
cdef class Hooks:
    # A scope opens. The result is stored in ``scope.mark``.
    cdef object scope_opens(self, DisposeScope scope)
    # `scope` is about to dispose its members, except those with ids in `but` (None: all of them). A member
    # that lives on leaves the scope here.
    cdef int scope_ends(self, DisposeScope scope, set but) except -1

    # An object that can't derive from `Disposable` has a member that represents it. Is `x` such an object?
    cdef bint represents(self, x) except -1
    # Return the member of `x`, or None if there is none yet.
    cdef Disposable known_member(self, x)
    # The same, after a search for new objects.
    cdef Disposable find_member(self, x)
    # The same, but create one without an owner if there is none.
    cdef Disposable new_member(self, x)
    # Register the new objects, which then join the scopes that they were created in.
    cdef int find_new(self) except -1
    # The same for the new objects that scopes own; of the others, only if they must be found soon.
    cdef int find_owned(self) except -1


# Fill the hooks.
cdef int set_hooks(Hooks filled) except -1

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
cdef DisposeScope current_scope()
# The value of the context variable: a scope, which may have ended, or None. Runs no Python code.
cdef DisposeScope current_scope_or_ended()
# The open scope that owns `x`, or None.
cdef DisposeScope owner_of_disposable(Disposable x)

# The nearest open scope around `scope`, or None. It may run Python code.
cdef DisposeScope outer_of(DisposeScope scope)
# The members of `scope`, oldest first.
cdef list members_of(DisposeScope scope)
# Append `x`, which is in no list, to the members of `scope`.
cdef void link_newest(Disposable x, DisposeScope scope) noexcept
# Return the member `x`, or None if its deallocation has begun.
cdef Disposable reference_if_alive(PyObject* x)
# Whether there is an observer.
cdef bint is_observed() noexcept
# Notify the observer of the new `x`: created now, or by the line `site` of `thread` (0: this thread).
cdef int notify_created(Disposable x, site, unsigned long thread) except -1
# Notify the observer that an operation of its library changed `x` in place.
cdef int notify_written(x) except -1
