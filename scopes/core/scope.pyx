# cython: language_level=3, auto_pickle=False
"""A scope, its members, and how they end.

A scope owns objects that are created while it is current, and disposes them at its end. It never keeps a
member alive. Its list of members is an intrusive ring of raw pointers, so entering, leaving and moving take
constant time and no memory. Two rules keep the pointers valid:

- A member leaves the list in ``__dealloc__``, before its memory is freed.
- Only ``reference_if_alive()`` turns a pointer from the list into a reference. It returns None for a member
  whose deallocation has begun. Such a member may still be in the list: finalizers of its attributes run
  before ``__dealloc__`` of this base class, and may run any code.

Every change of state (entering, leaving, moving, counting) is C code that runs no Python code between the
last check and the change. So the change is atomic under the GIL. On a free-threaded interpreter, which these
modules do not support, the lock `step_lock` makes it atomic. There is one lock for all objects, because a
move changes two lists and a member.

In order: what observers and adapters are told, the list, the current scope, registration and disposal, the
classes `Disposable`, `Resource` and `Compound` of members, the class `DisposeScope`, and loans.
"""

cimport cython
from cpython.contextvars cimport PyContextVar_Get, PyContextVar_New
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.unordered_map cimport unordered_map

from scopes.core.containers cimport find, find_in, is_closable, is_disposable
from scopes.core.counters cimport Counters, counters_of
from scopes.core.keepers cimport held_by_older, is_anything_held, keeper_count
from scopes.core.limits cimport Limits, count_in_force, when_changed

import gc
from warnings import warn

from scopes._shared.tracebacks import clear_library_frames
from scopes.core.containers import know_disposables
from scopes.core.errors import ScopeDisposedError, TensorDisposedError, ending_by, raise_unregistered
from scopes.core.limits import limits_of
from scopes._shared.naming import set_module

cdef extern from "scopes/_shared/contexts.h" namespace "scopes":
    object set_context_variable(object variable, object value)

cdef extern from "Python.h":
    # That of Cython takes an object, to which it may hold one more reference.
    Py_ssize_t Py_REFCNT(PyObject* x) noexcept nogil


# --- What observers and adapters are told ---


step_lock = object()
cdef object _step_lock = step_lock

# The current scope of each thread and task. It may have ended in another context: then readers use the
# enclosing scope.
current = PyContextVar_New("current_dispose_scope", <PyObject*>None)
cdef object _current = current

# The object that is notified of the events of members and scopes, or None.
cdef object _observer = None

# Whether there is an observer or an open scope with limits. Each registration checks only this.
cdef bint _is_watched = False


def set_observer(observer):
    """Set the object that is notified of events; None for no observer.

    Its methods are ``created(x, scope)``, also with the line and the thread of the creation if they differ
    from the caller's, ``ended(x, how)``, ``written(x)``, ``opened(scope)`` and
    ``closed(scope)``. Each is called after the event, on its thread; ``ended`` before the memory is released.
    """
    global _observer
    _observer = observer
    _note_watching()
    notify_watching()


cdef bint is_observed() noexcept:
    return _observer is not None


def current_observer():
    """Return the object that is notified of events, or None."""
    return _observer


def is_watched():
    """Return whether there is an observer or an open scope with limits."""
    return _is_watched


watch_callbacks = []  # functions to call when the result of `is_watched` may have changed


cdef int notify_watching() except -1:
    for function in watch_callbacks:
        function()
    return 0


cdef void _note_watching() noexcept:
    global _is_watched
    _is_watched = count_in_force() > 0 or _observer is not None


when_changed(_note_watching)


cdef int notify_opened(DisposeScope scope) except -1:
    if _observer is not None:
        _observer.opened(scope)
    return 0


cdef int notify_closed(DisposeScope scope) except -1:
    if _observer is not None:
        _observer.closed(scope)
    return 0


cdef int notify_written(x) except -1:
    if _observer is not None:
        _observer.written(x)
    return 0


cdef int notify_created(Disposable x, site, unsigned long thread) except -1:
    told = _observer
    subject = x.subject()
    if told is not None and subject is not None:
        if site is None:
            told.created(subject, owner_of_disposable(x))
        else:
            thread = thread if thread else PyThread_get_thread_ident()
            told.created(subject, owner_of_disposable(x), site, thread)
        if x.counters is None:
            # Another thread disposed it and reported that before `x` was known.
            told.ended(subject, ending_by(x._ended_scope))
    return 0


cdef int _tell_ended(Disposable x, DisposeScope scope) except -1:
    told = _observer
    subject = x.subject()
    if told is not None and subject is not None:
        told.ended(subject, ending_by(scope))
    return 0


cdef class Hooks:
    cdef object scope_opens(self, DisposeScope scope):
        return None

    cdef int scope_ends(self, DisposeScope scope, set but) except -1:
        return 0

    cdef bint represents(self, x) except -1:
        return False

    cdef Disposable known_member(self, x):
        return None

    cdef Disposable find_member(self, x):
        return None

    cdef Disposable new_member(self, x):
        return None

    cdef int find_new(self) except -1:
        return 0

    cdef int find_owned(self) except -1:
        return 0


cdef Hooks _hooks = Hooks()


cdef Hooks hooks():
    return _hooks


cdef int set_hooks(Hooks filled) except -1:
    global _hooks
    _hooks = filled
    return 0


# --- The list of members ---


cdef void unlink(Link* link) noexcept nogil:
    """Remove `link` from its list."""
    link.older.newer = link.newer
    link.newer.older = link.older
    link.owner.count -= 1
    link.owner = NULL


cdef void link_newest(Disposable x, DisposeScope scope) noexcept:
    """Append `x`, which is in no list, as the newest member."""
    cdef Link* head = &scope.members.head
    cdef Link* link = &x.link
    link.older = head.older
    link.newer = head
    link.older.newer = link
    head.older = link
    link.owner = &scope.members
    link.owner.count += 1


cdef PyObject* member_at(Link* link) noexcept nogil:
    # A borrowed reference to the object that contains `link`.
    return <PyObject*>(<char*>link - _place_of_link)


cdef Disposable reference_if_alive(PyObject* x):
    """Return the member `x`, or None if its deallocation has begun."""
    # As weak references do: under the GIL, a reference count of 0 shows that it has begun.
    return <Disposable>x if Py_REFCNT(x) > 0 else None


cdef list members_of(DisposeScope scope):
    cdef list found = []
    cdef Link* link
    cdef Disposable x
    # No Python code runs during the loop: appending to a list runs none.
    with cython.critical_section(_step_lock):
        link = scope.members.head.newer
        while link is not &scope.members.head:
            x = reference_if_alive(member_at(link))
            if x is not None:
                found.append(x)
            link = link.newer
    return found


cdef list subjects_of(list members):
    cdef list found = []
    cdef Disposable member
    for member in members:
        subject = member.subject()
        if subject is not None:
            found.append(subject)
    return found


cdef int add_sizes(list members, dict sizes) except -1:
    for member in members:
        if isinstance(member, Resource):
            resource = (<Resource>member).resource
            key, nbytes = id(resource), getattr(resource, "nbytes", 0)
            if not isinstance(nbytes, int):
                nbytes = 0
        else:
            key, nbytes = member._footprint()
        sizes[key] = max(nbytes, sizes.get(key, 0))
    return 0


# --- The current scope ---


cdef DisposeScope outer_of(DisposeScope scope):
    """Return the nearest enclosing open scope. Deleting the ended scopes may run Python code."""
    # `_before` keeps the old value of a field until the function returns, here and elsewhere. Deleting the
    # last reference to a scope may run Python code, which must not run during the assignment to the field.
    cdef DisposeScope _before = scope.outer
    cdef DisposeScope outer = scope.outer
    while outer is not None and not outer.members.is_open:
        outer = outer.outer
    if scope.outer is not outer:
        scope.outer = outer
    return outer


cdef int make_current(DisposeScope scope) except -1:
    set_context_variable(_current, scope)
    return 0


cdef bint is_current(DisposeScope scope) except -1:
    return scope is not None and current_scope_or_ended() is scope


cdef DisposeScope current_scope_or_ended():
    cdef PyObject* found = NULL
    PyContextVar_Get(_current, NULL, &found)
    value = None if found is NULL else <object>found
    Py_XDECREF(found)
    return value


cdef DisposeScope current_scope():
    cdef DisposeScope scope = current_scope_or_ended()
    while scope is not None and not scope.members.is_open:
        # It ended in another context. Read the scope again, because `outer_of` may run Python code.
        make_current(outer_of(scope))
        scope = current_scope_or_ended()
    return scope


@set_module("scopes")
def current_dispose_scope():
    """Return the scope that owns new tensors: the innermost open scope of this thread or task, or None.

    Examples
    --------
    >>> from scopes import current_dispose_scope, new_dispose_scope
    >>> with new_dispose_scope() as scope:
    ...     current_dispose_scope() is scope
    True
    """
    return current_scope()


cdef DisposeScope list_of(Disposable x):
    """Return the scope whose list contains `x`, or None. The scope may be ending."""
    cdef PyObject* found
    if x.link.owner is NULL:
        return None
    # An attached resource does not keep its scope alive: the scope's deallocation may have begun.
    found = x.link.owner.scope
    return <DisposeScope>found if Py_REFCNT(found) > 0 else None


cdef DisposeScope owner_of_disposable(Disposable x):
    return list_of(x) if x.link.owner is not NULL and x.link.owner.is_open else None


# --- Registration and disposal ---


cdef int register_new(Disposable x) except -1:
    return register_as(x, type(x), True)


cdef int register_unowned(Disposable x) except -1:
    return register_as(x, type(x), False)


cdef int register_as(Disposable x, type kind, bint is_owned, site=None) except -1:
    if x.counters is not None or x.link.owner is not NULL:
        return 0
    if _is_watched:
        return _register_watched(x, kind, is_owned, True, site, 0)
    # First the steps that may run Python code. The rest is atomic.
    cdef Counters counters = counters_of(kind)
    cdef DisposeScope scope = current_scope() if is_owned else None
    _enter(x, counters, scope)
    return 0


cdef int register_late(
    Disposable x, type kind, bint is_owned, site=None, unsigned long thread=0
) except -1:
    if x.counters is not None or x.link.owner is not NULL:
        return 0
    return _register_watched(x, kind, is_owned, False, site, thread)


cdef int _register_watched(
    Disposable x, type kind, bint is_owned, bint is_limited, site, unsigned long thread
) except -1:
    """Register `x` when there is an observer or a limit. Limits apply only if `is_limited`."""
    cdef Counters counters = counters_of(kind)
    cdef DisposeScope scope = current_scope() if is_owned else None
    while is_limited and scope is not None and scope.limits is not None:
        make_room_for(scope.limits, x)
        if scope.members.is_open:
            break
        scope = current_scope()  # the scope ended in the meantime, on another thread or in a finalizer
    _enter(x, counters, scope)
    if _observer is not None:
        notify_created(x, site, thread)
    return 0


cdef inline void _enter(Disposable x, Counters counters, DisposeScope scope) noexcept:
    """Count the new `x`, and add it to `scope`."""
    with cython.critical_section(_step_lock):
        x.link.is_registered = True
        if scope is not None:
            x.scope = scope
            link_newest(x, scope)
            counters.created_in.fetch_add(1, memory_order_relaxed)
        else:
            counters.created_outside.fetch_add(1, memory_order_relaxed)
        x.counters = counters


@set_module("scopes.lowlevel")
def register(Disposable x not None, *, bint is_owned=True):
    """Count the new object `x` and add it to the current scope, as the last step of its creation.

    ``Disposable.__init__`` does this. Call it in classes that create objects without ``__init__``.

    With ``is_owned=False`` no scope owns it.

    Examples
    --------
    >>> from scopes import Disposable, new_dispose_scope
    >>> from scopes.core.scope import register
    >>> class Lease(Disposable):
    ...     def _release(self):
    ...         self.is_held = False
    >>> with new_dispose_scope():
    ...     lease = Lease.__new__(Lease)
    ...     lease.is_held = True
    ...     register(lease)
    >>> lease.is_held
    False
    """
    register_as(x, type(x), is_owned)


cdef void hand_over_count(Disposable giver, Disposable taker) noexcept:
    taker.link.is_registered = True
    with cython.critical_section(_step_lock):
        taker.counters = giver.counters
        giver.counters = None


cdef bint hand_over_place(Disposable giver, Disposable taker) noexcept:
    cdef DisposeScope _before = taker.scope  # see `outer_of`
    cdef DisposeScope scope = owner_of_disposable(giver)
    cdef Link* link = &taker.link
    if scope is None or taker.counters is None or giver is taker:
        return False
    with cython.critical_section(_step_lock):
        if taker.link.owner is not NULL:
            unlink(link)
        link.older = &giver.link
        link.newer = giver.link.newer
        link.older.newer = link.newer.older = link
        link.owner = giver.link.owner
        link.owner.count += 1
        link.is_attached = giver.link.is_attached
        unlink(&giver.link)
        taker.scope = scope
        giver.scope = None
    return True


cdef void _count_disposed(Counters counters, bint counts_in_scope) noexcept:
    if counts_in_scope:
        counters.disposed_in.fetch_add(1, memory_order_relaxed)
    else:
        counters.disposed_outside.fetch_add(1, memory_order_relaxed)


cdef int dispose_one(Disposable x) except -1:
    cdef Counters counters
    cdef DisposeScope scope
    cdef bint is_member, counts_in_scope, by_its_end
    with cython.critical_section(_step_lock):
        counters = x.counters
        if counters is None:
            if not x.link.is_registered:
                raise_unregistered(type(x))
            return 0
        scope = x.scope  # held until the end, because dropping the last reference may run Python code
        is_member = x.link.owner is not NULL
        counts_in_scope = x.link.counts_in_scope = is_member or x.link.counts_in_scope
        by_its_end = counts_in_scope and scope is not None and not scope.members.is_open
        if is_member:
            unlink(&x.link)
        if not by_its_end:
            x.scope = None
        x.counters = None
        _count_disposed(counters, counts_in_scope)
    try:
        # Notify the observer before the release: after it, another thread may get the same address.
        if _observer is not None:
            _tell_ended(x, scope if by_its_end else None)
    finally:
        x.release()
    return 0


cdef int raise_disposed(Disposable x) except -1:
    x._raise_if_disposed()
    raise TensorDisposedError(f"this {type(x).__name__} is empty: it was disposed by dispose()")


cdef object noted(errors, error):
    if errors is None:
        return error
    try:
        if isinstance(errors, list):
            errors.append(error)
            return errors
        return [errors, error]
    except MemoryError:
        return errors  # out of memory: drop the error, and continue the disposal


cdef int raise_all(errors, when) except -1:
    """Raise `errors` as one group. Raise the first interrupt outside of it, with the group as its cause."""
    cdef list others = []
    interrupt = None
    for error in errors if isinstance(errors, list) else (errors,):
        if interrupt is None and not isinstance(error, Exception):
            interrupt = error
        else:
            others.append(error)
    group = None
    if others:
        message = f"{len(others)} error{'s' * (len(others) != 1)} {when}"
        group = BaseExceptionGroup(message, others)
    if interrupt is None:
        raise group
    # `except KeyboardInterrupt` and the exit code need it outside of a group.
    if group is None:
        raise interrupt
    raise interrupt from group


cdef object dispose_members(DisposeScope scope, errors):
    cdef Link* link
    cdef Disposable x
    while scope.members.count:
        with cython.critical_section(_step_lock):
            link = scope.members.head.older
            x = reference_if_alive(member_at(link))
            if x is None:
                # Its deallocation has begun. Mark that it was a member of this scope, for the counters.
                link.counts_in_scope = True
                unlink(link)
                continue
            if x.counters is None and not isinstance(x, Resource):
                unlink(link)  # its memory and its count moved to another object (`hand_over_count`)
                continue
        try:
            if isinstance(x, Resource):
                x.release()
            else:
                dispose_one(x)
        except BaseException as error:
            errors = noted(errors, error)
        x = None
    return errors


# --- Members ---


# The garbage collector must not clear the field `scope` of a member. That would break no cycle, because a
# scope does not refer to its members. It could free the list before `__dealloc__` removes the member.
@cython.no_gc_clear
cdef class Disposable:
    """Base class of disposables: objects whose memory ``dispose()`` or their scope releases.

    The scope that is current when an object is created becomes its *owner*, and disposes the object when the
    scope ends. Scopes do not keep such objects alive, and statistics count them.

    A subclass stores its resources in attributes, calls ``super().__init__()`` as the last line of
    ``__init__``, and releases the resources in ``_release``. The disposal calls ``_release`` once. An object
    whose last reference is deleted counts as finalized. ``_release`` is not called then, because the object's
    attributes are freed with it. If ``_release`` must run too, write ``__del__ = Disposable._finalize``.

    A class that can't derive from this only needs a method ``dispose()`` or ``close()``. Attach its objects
    to a scope, which keeps them alive and calls the method when it ends.

    Examples
    --------
    >>> import io
    >>> from scopes import Disposable, new_dispose_scope, statistics
    >>> class Lease(Disposable):
    ...     def __init__(self, name):
    ...         self.name = name
    ...         super().__init__()
    ...     def _release(self):
    ...         print("released", self.name)
    >>> with new_dispose_scope() as scope:
    ...     a, b = Lease("a"), Lease("b")
    ...     _ = scope.detach(a)
    released b
    >>> b.is_invalid, statistics.of(Lease).live_count
    (True, 1)
    >>> a.dispose()
    released a
    """

    def __init__(self):
        register_new(self)

    def __dealloc__(self):
        self.retire()

    cdef void retire(self) noexcept:
        cdef bint counts_in_scope
        with cython.critical_section(_step_lock):
            counts_in_scope = self.link.counts_in_scope
            if self.link.owner is not NULL:
                unlink(&self.link)
                counts_in_scope = True
            if self.counters is not None:
                self.counters.finalized.fetch_add(1, memory_order_relaxed)
                _count_disposed(self.counters, counts_in_scope)
                self.counters = None

    cdef int release(self) except -1:
        self._release()
        return 0

    cdef object subject(self):
        return self

    def _release(self):
        """Release the memory. Called once, after this has left its scope and counts as disposed."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method _release(): define _release(self), which frees what the "
            "object holds"
        )

    def _finalize(self):
        """Dispose this from ``__del__``; it counts as finalized."""
        cdef DisposeScope _scope = self.scope  # see `outer_of`
        if self.counters is not None:
            self.retire()
            self.scope = None
            self.release()

    def _raise_if_disposed(self):
        """Raise an error if this is empty; a subclass may raise its own."""
        if self.counters is not None:
            return
        if not self.link.is_registered:
            raise_unregistered(type(self))
        ended = self.scope if self.scope is not None and not self.scope.members.is_open else None
        raise TensorDisposedError(
            f"this {type(self).__name__} is empty: {ending_by(ended)}. Dispose it after its last use, "
            "or move it out before its scope ends: call that scope's move_to_outer(x) or detach(x)"
        )

    def _footprint(self):
        """Return a value that identifies the memory, and its size in bytes."""
        return id(self), 0

    def _keeps(self, seen):
        """Yield results of ``_footprint`` for all memory that this keeps alive. Skip objects in `seen`.

        A recorded operation is added to `seen`, and yielded with None as its size.
        """
        return (self._footprint(),)

    def _last_op(self):
        """Return an object that lives as long as the recorded op that made this, for weak references."""
        return None

    def _library(self):
        """Return the name of the library of the object that this represents; None for this library."""
        return None

    def _is_kept_by_library(self, references):
        """Return whether, of this many references to the object, the user has none."""
        return False

    def _revive(self, x):
        """Prepare `x` for use: the object that this represents, which a weak reference returned."""

    def __enter__(self):
        self._raise_if_disposed()
        return self

    def __exit__(self, *error):
        """Dispose this at the end of a ``with`` block."""
        self.dispose()

    def dispose(self):
        """Release the memory at once; a second call does nothing.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> x.dispose()
        >>> x.is_invalid
        True
        """
        dispose_one(self)

    @property
    def is_invalid(self):
        """Whether this is empty: it was disposed, or its memory moved elsewhere."""
        return self.counters is None

    @property
    def owning_dispose_scope(self):
        """The scope that will dispose this, or None.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     tensor.ones((2,)).owning_dispose_scope is scope
        True
        """
        return owner_of_disposable(self)

    @property
    def _ended_scope(self):
        """The scope whose end disposed this, or None."""
        cdef DisposeScope scope = self.scope
        return scope if scope is not None and not scope.members.is_open else None

    def detach_from_dispose_scope(self):
        """Detach this from its scope, so that no scope disposes it.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope():
        ...     x = tensor.ones((2,)).detach_from_dispose_scope()
        >>> x.sum().item()
        2.0
        """
        cdef DisposeScope scope = owner_of_disposable(self)
        if scope is not None:
            scope.move((self,), None, False, True)
        return self

    def move_to_outer_dispose_scope(self):
        """Move this to the scope around its owner. If it has no owner, nothing happens.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as outer:
        ...     with new_dispose_scope():
        ...         x = tensor.ones((2,)).move_to_outer_dispose_scope()
        ...     x in outer
        True
        """
        cdef DisposeScope scope = owner_of_disposable(self)
        if scope is not None:
            scope.move((self,), None, True, True)
        return self

    def move_to_other_dispose_scope(self, other):
        """Move this to the scope `other`, or to the owner of `other`.

        If `other` is None or has no owner, this is detached. If this has no owner, it is attached.

        Raises
        ------
        ScopeDisposedError
            If the scope `other` has ended.
        TensorDisposedError
            If this is disposed.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as outer:
        ...     total = tensor.zeros((2,))
        ...     with new_dispose_scope():
        ...         x = tensor.ones((2,)).move_to_other_dispose_scope(total)
        ...     x in outer
        True
        """
        target = owner_of_disposable(<Disposable>other) if isinstance(other, Disposable) else other
        if target is not None and not isinstance(target, DisposeScope):
            raise TypeError(
                f"move_to_other_dispose_scope() takes a scope, a disposable that has one, or None, not "
                f"{type(other).__name__}: write x.move_to_other_dispose_scope(scope)"
            )
        cdef DisposeScope scope = owner_of_disposable(self)
        if scope is not None:
            scope.move((self,), target, False, True)
        elif target is not None:
            target.attach(self)
        return self


# The offset of the link in an object, in bytes, so that a link needs no pointer to its object.
cdef Disposable _example = Disposable.__new__(Disposable)
cdef Py_ssize_t _place_of_link = <char*>&_example.link - <char*><PyObject*>_example
# The search for disposables does not look into them.
know_disposables(Disposable)


_CLOSED_MEANWHILE = (
    "a scope that owned this object ended and closed it while another scope was about to own it. Attach it "
    "before its scope ends, or move it out of that scope: scope.move_to_outer(x), scope.detach(x)"
)

# Maps the address of a resource to its `Resource`; both are borrowed references. An entry is removed with its
# `Resource`.
cdef unordered_map[size_t, PyObject*] _resource_by_address


@cython.final
@cython.no_gc_clear  # as in Disposable; the collector clears the scope's set of `Resource` objects instead
cdef class Resource(Disposable):
    """Member for a resource that is not a `Disposable`. It keeps the resource alive.

    The scope refers to it, but it does not refer to the scope. So if the last reference to an open scope is
    deleted, the scope no longer keeps the resource alive. Counters count the resource, not this object.
    """

    def __dealloc__(self):
        self.forget()

    cdef void forget(self) noexcept:
        """Remove the entry of the resource."""
        cdef size_t address = <size_t><PyObject*>self.resource
        found = _resource_by_address.find(address)
        if found != _resource_by_address.end() and _resource_by_address[address] == <PyObject*>self:
            _resource_by_address.erase(address)

    cdef int release(self) except -1:
        cdef DisposeScope scope = list_of(self)
        cdef object resource = self.resource
        with cython.critical_section(_step_lock):
            if resource is None:
                return 0  # another thread has already released it
            self.forget()
            self.resource = None
            if self.link.owner is not NULL:
                unlink(&self.link)
            if scope is not None:
                scope.held.discard(self)
        end_resource(resource)
        return 0

    cdef object subject(self):
        return self.resource

    def _raise_if_disposed(self):
        if self.resource is None:
            raise TensorDisposedError(_CLOSED_MEANWHILE)


cdef int end_resource(resource) except -1:
    if is_disposable(resource):
        resource.dispose()
    elif is_closable(resource):
        resource.close()
    return 0


cdef Resource new_resource(resource):
    cdef Resource held = Resource.__new__(Resource)
    held.resource = resource
    held.link.is_registered = True
    return held


cdef int remember(Resource held) except -1:
    _resource_by_address[<size_t><PyObject*>held.resource] = <PyObject*>held
    return 0


cdef Resource resource_of(x):
    """Return the `Resource` of the resource `x`, or None."""
    cdef size_t address = <size_t><PyObject*>x
    found = _resource_by_address.find(address)
    if found == _resource_by_address.end():
        return None
    return <Resource>reference_if_alive(_resource_by_address[address])


cdef Disposable member_for(x):
    """Return the member of `x`: itself if it is a disposable, else its `Resource`, or None."""
    cdef Disposable member
    if isinstance(x, Disposable):
        return <Disposable>x
    member = _hooks.find_member(x)
    return resource_of(x) if member is None else member


cdef Disposable member_to_own(x):
    """Return the member of `x`. If there is none, create one that is in no scope yet."""
    cdef Resource held
    if isinstance(x, Disposable):
        return <Disposable>x
    if _hooks.represents(x):
        return _hooks.new_member(x)
    held = resource_of(x)
    return new_resource(x) if held is None else held


def may_be_owned(x):
    """Return whether a scope may own `x`: a disposable, or something with ``close()`` that was attached."""
    return is_disposable(x) or _hooks.represents(x) or (is_closable(x) and resource_of(x) is not None)


def may_be_attached(x):
    """Return whether a scope could dispose `x`. Import the adapter of its library, if there is one."""
    if is_disposable(x) or _hooks.represents(x) or is_closable(x):
        return True
    return _import_adapter is not None and _import_adapter(x) and _hooks.represents(x)


# The function that imports the adapter of the library of an object. It returns False if there is none.
cdef object _import_adapter = None


def import_adapters_by(function):
    """Make ``attach(x)`` call ``function(x)`` for an `x` that no adapter knows."""
    global _import_adapter
    _import_adapter = function


@set_module("scopes.lowlevel")
def owner_of(x):
    """Return the open scope that owns `x`, a tensor or a resource that was attached; or None.

    Examples
    --------
    >>> import io
    >>> from scopes import new_dispose_scope
    >>> from scopes.core.scope import owner_of
    >>> with new_dispose_scope() as scope:
    ...     file = scope.attach(io.StringIO())
    ...     owner_of(file) is scope
    True
    """
    cdef Disposable member = member_for(x)
    return None if member is None else owner_of_disposable(member)


# --- What reports ask about objects ---


def settle():
    """Register the objects that were created and that nothing has read yet, so that figures are right."""
    _hooks.find_new()


cdef Disposable _known_member(x):
    """Return the member of `x` without a search for new objects, or None."""
    return <Disposable>x if isinstance(x, Disposable) else _hooks.known_member(x)


def footprint_of(x):
    """Return a value that identifies the memory of `x`, and its size in bytes."""
    cdef Disposable member = _known_member(x)
    return (id(x), 0) if member is None else member._footprint()


def keeps_of(x, seen):
    """Return the footprints of all memory that `x` keeps. Skip objects in `seen`."""
    cdef Disposable member = _known_member(x)
    return () if member is None else member._keeps(seen)


def last_op_of(x):
    """Return an object that lives as long as the recorded operation of `x`, for weak references, or None."""
    cdef Disposable member = _known_member(x)
    return None if member is None else member._last_op()


def is_kept_by_library(x, references):
    """Return whether only its library keeps `x` with `references`."""
    cdef Disposable member = _known_member(x)
    return member is not None and member._is_kept_by_library(references)


def library_of(x):
    """Return the name of the library of `x`; None for this library."""
    cdef Disposable member = _known_member(x)
    return None if member is None else member._library()


def revived(x):
    """Prepare `x`, which a weak reference returned, for use, and return it."""
    cdef Disposable member = _known_member(x)
    if member is not None:
        member._revive(x)
    return x


def dispose_each(list items):
    """Dispose `items`, the last first, and empty the list. Then raise all errors as one group."""
    cdef object errors = None
    cdef Resource held
    while items:
        try:
            x = items.pop()
            if isinstance(x, Disposable) or _hooks.represents(x):
                member_to_own(x).dispose()
                continue
            held = resource_of(x)
            if held is not None:
                held.release()
            else:
                end_resource(x)
        except BaseException as error:
            errors = noted(errors, error)
    if errors is not None:
        raise_all(errors, "while disposing")


# The collector must not clear the parts, because `__dealloc__` reads them. Cycles are broken at the parts.
@cython.no_gc_clear
cdef class Compound(Disposable):
    """Base class of disposables that consist of others, their parts.

    The constructor detaches the parts from their scopes, and counts them as detached. Then the compound owns
    them: its disposal disposes them, and counts them as disposed in a scope if a scope owned the compound. If
    the compound is freed without disposal, parts with other references become members of its scope. No
    counter of the parts changes then.

    Parameters
    ----------
    parts
        Disposables that are not part of another compound. Tensors of another library may be parts too, if
        its adapter is imported. The compound keeps its parts alive.

    Raises
    ------
    TypeError
        If a part is neither.
    TensorDisposedError
        If a part is disposed. Then the other parts stay in their scopes.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope
    >>> from scopes.core.scope import Compound
    >>> class Pair(Compound):
    ...     pass
    >>> with new_dispose_scope() as scope:
    ...     x, y = tensor.ones((2,)), tensor.ones((2,))
    ...     pair = Pair((x, y))
    ...     len(scope), pair.owning_dispose_scope is scope
    (1, True)
    >>> x.is_invalid, y.is_invalid
    (True, True)
    """

    # The parts, as the user gave them.
    cdef tuple subjects
    # The members of these: the same, or what represents an object of another library, which does not keep it
    # alive.
    cdef tuple parts

    def __init__(self, tuple parts not None):
        cdef list members = [_member_of_part(x) for x in parts]
        for x in members:
            (<Disposable>x)._raise_if_disposed()
        for x in members:
            (<Disposable>x).detach_from_dispose_scope()
        self.subjects = parts
        self.parts = tuple(members)
        register_new(self)

    def __dealloc__(self):
        cdef Py_ssize_t i
        cdef Disposable x
        cdef Members* owner = self.link.owner
        if owner is NULL or self.counters is None or self.parts is None:
            return
        with cython.critical_section(_step_lock):
            for i in range(len(self.parts)):
                x = <Disposable>self.parts[i]
                if x.counters is None or x.link.owner is not NULL:
                    continue
                _link_beside(&x.link, &self.link)
                x.scope = self.scope

    @property
    def _parts(self):
        """The parts, disposed or not."""
        return self.subjects

    cdef int release(self) except -1:
        cdef object errors = None
        cdef Py_ssize_t i
        cdef Disposable x
        for i in range(len(self.parts) - 1, -1, -1):
            x = <Disposable>self.parts[i]
            if x.counters is not None and x.link.owner is NULL:
                x.link.counts_in_scope = self.link.counts_in_scope
                x.scope = self.scope  # None, or the ended scope
            try:
                dispose_one(x)
            except BaseException as error:
                errors = noted(errors, error)
        if errors is not None:
            raise_all(errors, f"while a {type(self).__name__} disposed its parts")
        return 0

    def _footprint(self):
        key, total = id(self), 0
        for x in self.parts:
            own, nbytes = x._footprint()
            if total == 0:
                key = own
            total += nbytes
        return key, total

    def _keeps(self, seen):
        kept = []
        for x in self.parts:
            kept += x._keeps(seen)
        return kept


cdef Disposable _member_of_part(x):
    if isinstance(x, Disposable):
        return <Disposable>x
    if _hooks.represents(x):
        return _hooks.new_member(x)
    raise TypeError(
        f"a part of a Compound is a disposable or a tensor, not {type(x).__name__}: leave it out of the "
        "parts, and store it in an attribute"
    )


cdef void _link_beside(Link* link, Link* older) noexcept:
    """Insert `link`, which is in no list, after `older`."""
    link.older = older
    link.newer = older.newer
    link.older.newer = link.newer.older = link
    link.owner = older.owner
    link.owner.count += 1


# --- The scope ---


_NO_COPY = (
    "{} can't be copied or pickled: a copy would dispose the same disposables a second time. Open another "
    "scope with new_dispose_scope(), or copy what the scope owns"
)

_NO_NAME = (
    "the name of a scope must be a str, not {}: write str(name). To run a function in a scope, write "
    "@scopes.disposing above it"
)

# The function that `DisposeScope.survivors` calls.
cdef object _report_survivors = None


def report_survivors_by(report):
    """Make ``DisposeScope.survivors`` return ``report(members)``."""
    global _report_survivors
    _report_survivors = report


cdef class DisposeScope:
    """Scope that owns the tensors created while it is current, and disposes the living ones when it ends.

    It is current from its creation until it is disposed; ``with`` disposes it at the end of the block. It
    does not keep tensors alive: the memory of a tensor is released when its last reference is deleted.
    Other objects that you attach stay alive until the scope ends.

    Parameters
    ----------
    name
        For reports and errors.
    limit
        The most bytes that the scope and the scopes inside it may own at once: a number, or text such as
        ``"64 MiB"``. Shared memory counts once, as in ``nbytes``. Creating, attaching or moving an object
        beyond the limit raises a ``ScopeLimitError``.
    max_members
        The most members that the scope and the scopes inside it may own at once.

    Warns
    -----
    ResourceWarning
        If the current scope is open, and no variable and no ``with`` block refers to it. With ``-X
        tracemalloc`` the warning has the lines that opened that scope.

    Raises
    ------
    TypeError
        If the name is not a str, as for ``@new_dispose_scope`` above a function.

    Examples
    --------
    >>> import tensor
    >>> from scopes import DisposeScope
    >>> with DisposeScope("step") as scope:
    ...     x = tensor.ones((2, 2))
    ...     print(scope)
    <DisposeScope 'step': open, 1 disposable, 16 bytes>
    >>> x.is_invalid
    True

    With a limit:

    >>> from scopes import ScopeLimitError
    >>> with DisposeScope("request", limit="64 KiB", max_members=100) as scope:
    ...     try:
    ...         x = tensor.ones((1000, 1000))
    ...     except ScopeLimitError as error:
    ...         print(error.would_be > error.limit, len(scope))
    True 0
    """

    def __cinit__(self):
        self.members.head.older = self.members.head.newer = &self.members.head

    def __init__(self, name=None, *, limit=None, max_members=None):
        if self.members.scope is not NULL:
            raise RuntimeError(f"{self} was opened before: open another one with new_dispose_scope()")
        if name is not None and not isinstance(name, str):
            raise TypeError(_NO_NAME.format(type(name).__name__))
        _hooks.find_owned()
        self.name = name
        self.thread = PyThread_get_thread_ident()
        self.outer = current_scope()
        if self.outer is not None and is_dropped(<PyObject*>self.outer):
            warn_of_dropped(self.outer)
        if limit is not None or max_members is not None:
            self.limits = (limits_of(name, limit, max_members),)
        if self.outer is not None and self.outer.limits is not None:
            self.limits = self.outer.limits if self.limits is None else self.limits + self.outer.limits
        self.mark = _hooks.scope_opens(self)
        self.older = keeper_count()
        self.members.scope = <PyObject*>self
        self.members.is_open = True
        try:
            if self.limits is not None:
                begin_in(self)
                notify_watching()
            make_current(self)
            if is_observed():
                notify_opened(self)
        except BaseException:
            self.end()
            raise

    def __dealloc__(self):
        # Only `Resource` objects are left: all other members keep their scope alive. One may outlive the
        # scope if another thread or `gc.get_objects()` refers to it. So remove each from the list, which is
        # freed now.
        self.members.is_open = False
        while self.members.count:
            unlink(self.members.head.newer)

    def __enter__(self):
        if not self.members.is_open:
            self.raise_ended("entered")
        return self

    def __exit__(self, kind, error, traceback):
        try:
            self.end()
        except BaseException as failure:
            clear_library_frames(failure)  # and those of `error`, which is its context
            raise
        finally:
            if self.is_of_generator:
                # Restore the consumer's scope even if the generator left scopes open: the garbage collector
                # may close the generator at any ``yield``.
                make_current(outer_of(self))
        if error is not None:
            clear_library_frames(error)

    def __call__(self, *args, **kwargs):
        """Raise a TypeError: a scope decorates no function. End it if it is empty and in no variable."""
        # `@new_dispose_scope("step")` has opened it: only the context and the call refer to it. From Python
        # 3.14 on, the call of a local variable may add no reference, and then ends an empty scope too.
        if self.members.count == 0 and is_dropped(<PyObject*>self) and is_current(self):
            self.end()
        raise TypeError(
            "a scope is not a decorator: write @disposing above the function, or "
            "`with new_dispose_scope(...):` inside it"
        )

    def dispose(self):
        """End the scope and dispose all that it owns, newest first; a second call does nothing.

        Raises
        ------
        ExceptionGroup
            The errors of the members' ``dispose()``, raised after all members are disposed.
        """
        self.__exit__(None, None, None)

    cdef int end(self) except -1:
        cdef object errors = None
        cdef DisposeScope outer
        try:
            _hooks.find_owned()
        except BaseException as error:
            errors = noted(errors, error)
        try:
            if self.members.count and self.members.is_open:
                _hooks.scope_ends(self, None)
            if is_anything_held() and self.members.count and self.members.is_open:
                move_out_held(self, None)
        except BaseException as error:
            errors = noted(errors, error)
        if not self.members.is_open:
            if errors is not None:
                raise_all(errors, f"while {self} looked for its members")
            return 0
        # From here on, no object can be added, and other threads see that the scope has ended.
        self.members.is_open = False
        try:
            if self.limits is not None:
                end_in(self)
        except BaseException as error:
            errors = noted(errors, error)
        try:
            outer = outer_of(self)
            if is_current(self):
                make_current(outer)
        except MemoryError:
            pass  # `current_dispose_scope` skips scopes that have ended
        if self.members.count:
            errors = dispose_members(self, errors)
        try:
            if self.limits is not None:
                notify_watching()
            if is_observed():
                notify_closed(self)
        except BaseException as error:
            errors = noted(errors, error)
        if errors is not None:
            raise_all(errors, f"while {self} disposed its members")
        return 0

    cdef int raise_ended(self, what) except -1:
        raise ScopeDisposedError(
            f"{self} can't be {what}: it has ended. Use a scope that is open "
            "(current_dispose_scope()), open one with new_dispose_scope(), or do this before the scope's "
            "`with` block ends"
        )

    cdef int take_over(self, list members, list counters) except -1:
        cdef Py_ssize_t i
        cdef Disposable x
        cdef Counters counter
        # The previous owners, kept until the function returns: deleting a last reference may run Python code.
        cdef list before = [None] * len(members)
        if self.held is None:
            self.held = set()
        with cython.critical_section(_step_lock):
            if not self.members.is_open:
                self.raise_ended("attached to")
            # First the checks that may fail.
            for i in range(len(members)):
                x = <Disposable>members[i]
                if (<Resource>x).resource is None if isinstance(x, Resource) else x.counters is None:
                    raise_disposed(x)  # another thread or a finalizer has just disposed it
            self.hold(members)
            for i in range(len(members)):
                x = <Disposable>members[i]
                if counters is not None:
                    x.link.is_attached = True
                if x.link.owner is &self.members:
                    continue
                before[i] = list_of(x)
                if x.link.owner is not NULL:
                    unlink(&x.link)
                link_newest(x, self)
                if isinstance(x, Resource):
                    if before[i] is not None:
                        (<DisposeScope>before[i]).held.discard(x)
                else:
                    if before[i] is None:
                        before[i] = x.scope
                    x.scope = self
                if counters is not None:
                    counter = <Counters>counters[i] if isinstance(x, Resource) else x.counters
                    counter.attached.fetch_add(1, memory_order_relaxed)
        return 0

    cdef int hold(self, list members) except -1:
        cdef Py_ssize_t i
        cdef Disposable x
        cdef Resource known
        try:
            for i in range(len(members)):
                if isinstance(members[i], Resource):
                    known = resource_of((<Resource>members[i]).resource)
                    if known is None:
                        remember(<Resource>members[i])
                    else:
                        members[i] = known
                    self.held.add(members[i])
        except MemoryError:
            for i in range(len(members)):
                x = <Disposable>members[i]
                if isinstance(x, Resource) and x.link.owner is not &self.members:
                    self.held.discard(x)
            raise
        return 0

    cdef int move(
        self, tuple xs, DisposeScope target, bint outward, bint may_have_ended, call=None
    ) except -1:
        cdef list members = [], counters = []
        cdef bint holds = False
        cdef DisposeScope admitted = None
        if not self.members.is_open:
            if may_have_ended:
                return 0
            self.raise_ended("used to move objects")
        # Usually `xs` is a single tensor, and a search would take longer than the move.
        if len(xs) == 1 and isinstance(xs[0], Disposable) and not hasattr(type(xs[0]), "__disposables__"):
            members, counters = [xs[0]], [None]
        else:
            for x in find_in(xs, may_be_owned, True, call):
                member = member_for(x)
                if member is not None:
                    members.append(member)
                    counters.append(counters_of(type(x)) if isinstance(member, Resource) else None)
                    holds = holds or isinstance(member, Resource)
        while True:  # repeat the steps that may run Python code until nothing changes
            if outward:
                target = outer_of(self)
            if target is not None and target.limits is not None and target is not admitted:
                admitted = target
                make_room_for_all(target.limits, [x for x in members if self.contains(x)])
            if holds and target is not None and target.held is None:
                target.held = set()
            elif not outward or target is None or target.members.is_open:
                break
        with cython.critical_section(_step_lock):
            if not self.members.is_open:
                if may_have_ended:
                    return 0
                self.raise_ended("used to move objects")
            if target is None:
                self.release_members(members, counters)
            elif not target.members.is_open:
                target.raise_ended("moved to")
            else:
                self.hand_over(members, target)
        return 0

    cdef void release_members(self, list members, list counters) noexcept:
        cdef Py_ssize_t i
        cdef Disposable x
        for i in range(len(members)):
            x = <Disposable>members[i]
            if x.link.owner is not &self.members:
                continue
            unlink(&x.link)
            x.link.is_attached = False
            if isinstance(x, Resource):
                (<Resource>x).forget()
                self.held.discard(x)
                (<Counters>counters[i]).detached.fetch_add(1, memory_order_relaxed)
            else:
                x.scope = None
                if x.counters is not None:
                    x.counters.detached.fetch_add(1, memory_order_relaxed)

    cdef int hand_over(self, list members, DisposeScope target) except -1:
        cdef Py_ssize_t i
        cdef Disposable x
        if target is self:
            return 0
        for i in range(len(members)):  # first the steps that may fail
            x = <Disposable>members[i]
            if isinstance(x, Resource) and x.link.owner is &self.members:
                target.held.add(x)
        for i in range(len(members)):
            x = <Disposable>members[i]
            if x.link.owner is not &self.members:
                continue
            unlink(&x.link)
            link_newest(x, target)
            if isinstance(x, Resource):
                self.held.discard(x)
            else:
                x.scope = target
        return 0

    @property
    def outer_scope(self):
        """The nearest enclosing scope that is open."""
        return outer_of(self)

    @property
    def _outer(self):
        """The enclosing scope, which may have ended."""
        return self.outer

    @property
    def is_disposed(self):
        """Whether the scope has ended."""
        return not self.members.is_open

    cdef list collect(self):
        """Return the members, oldest first."""
        return members_of(self)

    cdef int complete(self, what) except -1:
        """Raise an error unless the scope is open. Add its new objects that are not registered yet."""
        if not self.members.is_open:
            self.raise_ended(what)
        return _hooks.find_new()

    cdef Limits own_limits(self):
        """Return the limits that were given to this scope, or None."""
        cdef Limits first
        if self.limits is None:
            return None
        first = <Limits>self.limits[0]
        return first if first.is_of(<size_t><void*>self) else None

    @property
    def limit(self):
        """The most bytes that this scope and those inside it may own, or None."""
        cdef Limits own = self.own_limits()
        return None if own is None else own.limit

    @property
    def max_members(self):
        """The most members that this scope and those inside it may have, or None."""
        cdef Limits own = self.own_limits()
        return None if own is None else own.max_members

    @property
    def disposables_view(self):
        """The objects that the scope owns, oldest first."""
        self.complete("used to list its members")
        return tuple(subjects_of(self.collect()))

    @property
    def disposables_count(self):
        """The number of objects that the scope owns."""
        return len(self)

    @property
    def nbytes(self):
        """The bytes of the objects that the scope owns; shared memory counts once."""
        self.complete("used to compute its size")
        return self.size()

    cdef object size(self):
        cdef dict sizes = {}
        add_sizes(self.collect(), sizes)
        return sum(sizes.values())

    def survivors(self):
        """Return a report of the members, grouped by the line that created them; see ``scopes.leaks``.

        Tracking must be on.

        Examples
        --------
        >>> import scopes, tensor
        >>> with scopes.track(), scopes.new_dispose_scope() as scope:
        ...     kept = [tensor.ones((10,)) for _ in range(3)]
        ...     [(row.count, row.nbytes) for row in scope.survivors().rows]
        [(3, 120)]
        """
        return _report_survivors(self.disposables_view)

    def __len__(self):
        self.complete("used to list its members")
        return self.members.count

    def __bool__(self):
        return True  # an empty scope is still a scope: `scope or other` must return it

    def contains(self, x):
        """Return whether the scope owns `x`. A scope that has ended owns nothing."""
        cdef Disposable member = member_for(x)
        return member is not None and self.members.is_open and member.link.owner is &self.members

    def __contains__(self, x):
        return self.contains(x)

    def attach(self, *xs):
        """Attach disposables to this scope, from any owner.

        Parameters
        ----------
        *xs
            Disposables, objects with ``close()``, or containers and objects that hold some, in any nesting. A
            module is attached as one disposable. An object without any disposable gives a warning. A tensor
            of another library imports its adapter, if there is one.

        Returns
        -------
        The argument, or a tuple of several arguments.

        Raises
        ------
        ScopeDisposedError
            If this scope has ended; no owner changes.
        TensorDisposedError
            If one of the tensors is disposed; no owner changes.
        TypeError
            For an iterator, because the search would exhaust it; no owner changes.

        Examples
        --------
        >>> import io
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     file = scope.attach(io.StringIO())
        >>> file.closed
        True
        """
        cdef list members = [], counters = []
        if not self.members.is_open:
            self.raise_ended("attached to")
        # Keep the found objects alive until the end: a mapping may create its values on access.
        found = find_in(xs, may_be_attached, False, "attach")
        for x in found:
            member = member_to_own(x)
            members.append(member)
            member._raise_if_disposed()
            counters.append(counters_of(type(x)) if isinstance(member, Resource) else None)
        if self.limits is not None:
            make_room_for_all(self.limits, members)
        self.take_over(members, counters)
        return xs[0] if len(xs) == 1 else xs

    def detach(self, *xs):
        """Detach members among `xs` from this scope: no scope disposes them.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     x, y = scope.detach(tensor.ones((2,)), tensor.zeros((2,)))
        >>> x.is_invalid, y.is_invalid
        (False, False)
        """
        self.move(xs, None, False, False, "detach")
        return xs[0] if len(xs) == 1 else xs

    def move_to_outer(self, *xs):
        """Move members among `xs` to the enclosing scope. An outermost scope detaches them.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope():
        ...     with new_dispose_scope() as inner:
        ...         best = inner.move_to_outer({"loss": tensor.ones((1,))})
        ...     best["loss"].item()
        1.0
        """
        self.move(xs, None, True, False, "move_to_outer")
        return xs[0] if len(xs) == 1 else xs

    def _hand_out(self, *xs):
        """Move the members in a user's result as ``move_to_outer`` does. Other objects give no warning."""
        self.move(xs, None, True, False)
        return xs[0] if len(xs) == 1 else xs

    def move_to_other(self, other, *xs):
        """Move members among `xs` to the scope `other`; None detaches them.

        Raises
        ------
        ScopeDisposedError
            If this scope or `other` has ended; no owner changes.
        """
        if other is not None and not isinstance(other, DisposeScope):
            raise TypeError(
                f"move_to_other() takes the scope first, or None, not {type(other).__name__}: write "
                "scope.move_to_other(other_scope, x), or x.move_to_other_dispose_scope(y) to go where y is"
            )
        self.move(xs, other, False, False, "move_to_other")
        return xs[0] if len(xs) == 1 else xs

    def borrow(self, *xs):
        """Return a context manager: this scope owns `xs` inside its block, the previous owners after it.

        Statistics do not change for members of another scope. They count an object without an owner as
        attached, and as detached at the end. Objects that are disposed or moved in the block do not return.
        If the owner has ended meanwhile, the object returns to the owner's nearest enclosing open scope.

        Parameters
        ----------
        *xs
            As in ``attach``.

        Returns
        -------
        The context manager. ``as`` gives the argument, or a tuple of several arguments.

        Raises
        ------
        ScopeDisposedError
            If this scope has ended, at the call or when the block begins; no owner changes.
        TensorDisposedError, ScopeLimitError
            When the block begins; no owner changes.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as outer:
        ...     x = tensor.ones((2,))
        ...     with new_dispose_scope() as inner:
        ...         with inner.borrow(x):
        ...             x in inner
        ...     x in outer
        True
        True
        """
        if not self.members.is_open:
            self.raise_ended("used to borrow objects")
        return Loan.__new__(Loan, self, xs)

    def _suspend(self, item):
        """Leave the generator: move `item` to the consumer's scope, and make that scope current."""
        cdef DisposeScope _before = self.innermost  # see `outer_of`
        cdef DisposeScope outer = outer_of(self)
        cdef DisposeScope scope = current_scope()
        self.innermost = None if scope is self or scope is outer else scope
        while scope is not None and scope is not outer:
            scope.move((item,), outer, False, False)
            scope = outer_of(scope)
        make_current(outer)

    def _resume(self):
        """Enter the generator again. The consumer may be in another scope, task or thread now."""
        cdef DisposeScope _before = self.outer  # see `outer_of`
        self.outer = current_scope()
        make_current(self if self.innermost is None else self.innermost)

    def dispose_everything(self):
        """Dispose all members. The scope stays open."""
        self.dispose_everything_but()

    def dispose_everything_but(self, *keep):
        """Dispose all members except those in `keep`, or inside of containers and objects in `keep`.

        Objects in `keep` that this scope does not own do not change.

        Returns
        -------
        The argument, or a tuple of several arguments.

        Raises
        ------
        ExceptionGroup
            The errors of the members' ``dispose()``, raised after all members are disposed.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     x, y = tensor.ones((1,)), tensor.ones((1,))
        ...     kept = scope.dispose_everything_but([x])
        ...     kept[0] is x, x.is_invalid, y.is_invalid
        (True, False, True)
        """
        cdef object errors = None
        cdef list members
        cdef Disposable x
        self.complete("used to dispose its members")
        cdef set kept = set(map(id, find(keep, may_be_owned, True)))
        self.complete("used to dispose its members")
        _hooks.scope_ends(self, kept)
        if is_anything_held():
            move_out_held(self, kept)
        members = self.collect()
        while members:
            try:
                x = members.pop()
                if id(x.subject()) in kept or x.link.owner is not &self.members:
                    continue
                if isinstance(x, Resource):
                    x.release()
                elif x.counters is not None:
                    dispose_one(x)
                else:
                    unlink(&x.link)  # its memory and its count moved to another object (`hand_over_count`)
                    x.scope = None
            except BaseException as error:
                errors = noted(errors, error)
        if errors is not None:
            raise_all(errors, f"while {self} disposed its members")
        return keep[0] if len(keep) == 1 else keep

    @staticmethod
    def replace_with(original, replacement):
        """Replace `original` by `replacement` in its scope. Statistics do not change.

        If `original` has no owner, nothing happens. ``nn.Parameter`` replaces its tensor in the same way.

        Examples
        --------
        >>> import tensor
        >>> from scopes import DisposeScope, new_dispose_scope
        >>> spare = tensor.ones((1,))
        >>> with new_dispose_scope() as scope:
        ...     x = tensor.ones((1,))
        ...     _ = DisposeScope.replace_with(x, spare)
        ...     x in scope, spare in scope
        (False, True)
        """
        if original is replacement:
            return replacement
        if isinstance(replacement, Disposable):
            replacement._raise_if_disposed()
        elif not may_be_attached(replacement):
            raise TypeError(
                f"a {type(replacement).__name__} can't replace a {type(original).__name__} in a scope: it "
                "has neither dispose() nor close(), so the scope could not end it. Pass a tensor or another "
                "disposable"
            )
        if isinstance(original, Disposable) and isinstance(replacement, Disposable):
            if not hand_over_place(original, replacement):
                replacement._raise_if_disposed()  # another thread may have disposed it since the check
        else:
            _replace_resource(original, replacement)
        return replacement

    def __copy__(self):
        raise TypeError(_NO_COPY.format(self))

    def __deepcopy__(self, memo):
        raise TypeError(_NO_COPY.format(self))

    def __reduce_ex__(self, protocol):
        raise TypeError(_NO_COPY.format(self))

    def __repr__(self):
        label = "DisposeScope" if self.name is None else f"DisposeScope {self.name!r}"
        if not self.members.is_open:
            return f"<{label}: disposed>"
        count = self.members.count
        return f"<{label}: open, {count} disposable{'s' * (count != 1)}, {self.size():,} bytes>"


cdef int _replace_resource(original, replacement) except -1:
    cdef Disposable before = member_for(original)
    cdef DisposeScope scope = None if before is None else owner_of_disposable(before)
    if scope is None:
        return 0
    scope.take_over([member_to_own(replacement)], None)
    if before.link.owner is not NULL:
        unlink(&before.link)
    if isinstance(before, Resource):
        (<Resource>before).forget()
        scope.held.discard(before)
    else:
        before.scope = None
    return 0


cdef bint is_dropped(PyObject* pointer) except -1:
    """Return whether only the context, the members and a new inner scope refer to the open scope `pointer`.

    A ``with`` block, a variable and a suspended generator each hold one more reference.
    """
    cdef Py_ssize_t count = Py_REFCNT(pointer)
    cdef DisposeScope scope = <DisposeScope>pointer
    if count > 2 + scope.members.count:
        return False
    for member in members_of(scope):
        count -= (<Disposable>member).scope is scope
    return count <= 2


cdef int warn_of_dropped(DisposeScope scope) except -1:
    warn(
        f"{scope} was never ended, and no variable refers to it: new tensors belong to it from now on. Write "
        "`with new_dispose_scope():`, or keep the scope and call its dispose()",
        ResourceWarning,
        source=scope,  # with tracemalloc, Python adds the lines that opened it
    )
    return 0


# A wrapper function would add a tenth to the time of an empty scope.
new_dispose_scope = DisposeScope


def generator_scope(name):
    """Return a new scope that is current only while a generator runs, not while its consumer runs."""
    cdef DisposeScope scope = DisposeScope(name)
    scope.is_of_generator = True
    return scope


def call_in_scope(name, function, tuple args, dict kwargs):
    """Call `function` in a new scope, and move its result to the current scope."""
    with DisposeScope(name) as scope:
        return scope._hand_out(function(*args, **kwargs))


# --- Limits ---


cdef object subject_of(Disposable x):
    return x.subject()


cdef object nbytes_of(x):
    cdef dict sizes = {}
    add_sizes([x], sizes)
    return sum(sizes.values())


cdef int begin_in(DisposeScope scope) except -1:
    cdef Limits limits
    for limits in scope.limits:
        limits.scopes[<size_t><void*>scope] = scope
        limits.begin(<size_t><void*>scope)
    return 0


cdef int end_in(DisposeScope scope) except -1:
    cdef Limits limits
    for limits in scope.limits:
        if limits.is_of(<size_t><void*>scope):
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
        _count_with(full, [x], nbytes, 1)


cdef int make_room_for_all(tuple limits, list members) except -1:
    cdef Limits one
    if not members:
        return 0
    for one in limits:
        if one.is_in_force:
            _count_with(one, members, 0, 0)
    return 0


cdef int _count_with(Limits limits, list newcomers, int64_t nbytes, int64_t count) except -1:
    """Count the members and `newcomers`, and raise an error if they exceed the limit.

    The new bounds leave out `nbytes` and `count`, which the caller adds later.
    """
    cdef int64_t bytes_before, members_before, total, members
    cdef dict sizes
    cdef list all_of_them
    for is_collected in (False, True):
        bytes_before, members_before = limits.bytes_granted, limits.members_granted
        found = {id(x): x for scope in list(limits.scopes.values()) for x in members_of(scope)}
        found.update((id(x), x) for x in newcomers)
        all_of_them = list(found.values())
        sizes = {}
        add_sizes(all_of_them, sizes)
        total, members = sum(sizes.values()), len(all_of_them)
        if total <= limits.most_bytes and members <= limits.most_members:
            limits.bytes_bound = total - nbytes + (limits.bytes_granted - bytes_before)
            limits.members_bound = members - count + (limits.members_granted - members_before)
            return 0
        found = all_of_them = None
        if not is_collected:
            gc.collect()  # frees objects that only reference cycles keep
    members_now = [x for scope in list(limits.scopes.values()) for x in members_of(scope)]
    held = [(nbytes_of(x), subject_of(x)) for x in members_now]
    raise limits.refused(
        total, members, [subject_of(x) for x in newcomers], [nbytes_of(x) for x in newcomers], held
    )


# --- What keepers hold ---


cdef bint _is_member(PyObject* x, void* scope) noexcept:
    """Return whether `x` is a member of the scope that a user has not attached."""
    if not isinstance(<object>x, Disposable):
        return False
    cdef Link* link = &(<Disposable><object>x).link
    return link.owner is &(<DisposeScope><PyObject*>scope).members and not link.is_attached


cdef int move_out_held(DisposeScope scope, set but) except -1:
    """Move the members of `scope` that older keepers hold to the outer scope, or detach them.

    Skip those with ids in `but`; None skips none.
    """
    cdef Disposable owned, x
    for holder, found in held_by_older(scope.older, _is_member, <void*>scope):
        owned = member_for(holder)
        if owned is None or owned.link.owner is not &scope.members:
            for x in found:
                if x._last_op() is None and (but is None or id(x) not in but):
                    scope.move((x,), None, True, True)
    return 0


# --- Loans ---


cdef class Loan:
    """The context manager that ``DisposeScope.borrow`` returns."""

    cdef DisposeScope borrower
    cdef tuple lent
    # The members and the owner of each; None outside of the block.
    cdef list members, owners

    def __cinit__(self, DisposeScope borrower not None, tuple lent not None):
        self.borrower = borrower
        self.lent = lent

    def __enter__(self):
        cdef list members = [], owners = [], counters = [], unowned = [], unowned_counters = []
        cdef Disposable x
        cdef Py_ssize_t i
        if self.members is not None:
            raise RuntimeError(
                "this loan was entered before: write a new `with scope.borrow(x):` for each block"
            )
        for thing in find_in(self.lent, may_be_attached, False, "borrow"):
            x = member_to_own(thing)
            x._raise_if_disposed()
            members.append(x)
            counters.append(counters_of(type(thing)) if isinstance(x, Resource) else None)
            owners.append(owner_of_disposable(x))
        if not self.borrower.members.is_open:
            self.borrower.raise_ended("used to borrow objects")
        if self.borrower.limits is not None:
            make_room_for_all(self.borrower.limits, members)
        for i in range(len(members)):
            if owners[i] is None:
                unowned.append(members[i])
                unowned_counters.append(counters[i])
        self.borrower.take_over(members, None)
        # The steps below can't fail.
        for i in range(len(unowned)):
            x = <Disposable>unowned[i]
            counter = unowned_counters[i] if isinstance(x, Resource) else x.counters
            if counter is not None:
                (<Counters>counter).attached.fetch_add(1, memory_order_relaxed)
        self.members, self.owners = members, owners
        return self.lent[0] if len(self.lent) == 1 else self.lent

    def __exit__(self, *error):
        cdef list members = self.members, owners = self.owners
        cdef Disposable x
        cdef DisposeScope owner
        cdef Py_ssize_t i
        self.members = self.owners = None
        for i in range(len(members)):
            x = <Disposable>members[i]
            owner = <DisposeScope>owners[i]
            if owner is not None and not owner.members.is_open:
                owner = outer_of(owner)
            if x.link.owner is not &self.borrower.members or owner is self.borrower:
                continue
            counters = [counters_of(type(x.subject()))] if isinstance(x, Resource) else [None]
            if owner is None:
                self.borrower.release_members([x], counters)
            else:
                if owner.held is None:
                    owner.held = set()
                self.borrower.hand_over([x], <DisposeScope>owner)

    def __repr__(self):
        return f"<{self.borrower} {'borrows' if self.members is not None else 'may borrow'} {len(self.lent)}>"


# Where users find them.
set_module("scopes.lowlevel")(Compound)
set_module("scopes")(Disposable)
set_module("scopes")(DisposeScope)
