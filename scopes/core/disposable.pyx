# cython: language_level=3, auto_pickle=False
"""The base class of scope members, the list of members, and the registration of new ones.

A scope never keeps a member alive. Its list is an intrusive ring of raw pointers, so entering, leaving and
moving take constant time and no memory. Two rules keep the pointers valid:

- A member leaves the list in ``__dealloc__``, before its memory is freed.
- Only ``reference_if_alive()`` turns a pointer from the list into a reference. It returns None for a member
  whose deallocation has begun. Such a member may still be in the list: finalizers of its attributes run
  before ``__dealloc__`` of this base class, and may run any code.

Every change of state (entering, leaving, moving, counting) is C code that runs no Python code between the
last check and the change. So the change is atomic under the GIL. On a free-threaded interpreter, which these
modules do not support, the lock `step_lock` makes it atomic. There is one lock for all objects, because a
move changes two lists and a member.
"""

cimport cython
from cpython.contextvars cimport PyContextVar_Get, PyContextVar_New, PyContextVar_Set
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_XDECREF
from libcpp.atomic cimport memory_order_relaxed

from scopes.core.counters cimport Counters, counters_of

from scopes.core.errors import TensorDisposedError, ending_by, raise_unregistered


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* x) noexcept


step_lock = object()
cdef object _step_lock = step_lock

# The current scope of each thread and task. It may have ended in another context: then readers use the
# enclosing scope.
current = PyContextVar_New("current_dispose_scope", <PyObject*>None)
cdef object _current = current

# The object that is notified of the events of members and scopes, or None.
cdef object _observer = None

cdef Py_ssize_t _limited_count = 0
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
    count_limited(0)
    notify_watching()


cdef bint is_observed() noexcept:
    return _observer is not None


def is_watched():
    """Return whether there is an observer or an open scope with limits."""
    return _is_watched


watch_callbacks = []  # functions to call when the result of `is_watched` may have changed


cdef int notify_watching() except -1:
    for function in watch_callbacks:
        function()
    return 0


cdef void count_limited(Py_ssize_t change) noexcept:
    global _limited_count, _is_watched
    _limited_count += change
    _is_watched = _limited_count > 0 or _observer is not None


cdef int notify_opened(MemberList scope) except -1:
    if _observer is not None:
        _observer.opened(scope)
    return 0


cdef int notify_closed(MemberList scope) except -1:
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
            told.created(subject, owner_of(x))
        else:
            told.created(subject, owner_of(x), site, thread if thread else PyThread_get_thread_ident())
        if x.counters is None:
            # Another thread disposed it and reported that before `x` was known.
            told.ended(subject, ending_by(x._ended_scope))
    return 0


cdef int _tell_ended(Disposable x, MemberList scope) except -1:
    told = _observer
    subject = x.subject()
    if told is not None and subject is not None:
        told.ended(subject, ending_by(scope))
    return 0


# The list.


cdef class MemberList:
    """The part of a scope that its members refer to. Only `DisposeScope` creates it."""

    def __cinit__(self):
        self.members.head.older = self.members.head.newer = &self.members.head

    cdef int move(self, tuple xs, MemberList target, bint outward, bint may_have_ended, call=None) except -1:
        raise NotImplementedError

    cdef int make_room(self, Disposable x) except -1:
        raise NotImplementedError


cdef void unlink(Link* link) noexcept nogil:
    """Remove `link` from its list."""
    link.older.newer = link.newer
    link.newer.older = link.older
    link.owner.count -= 1
    link.owner = NULL


cdef void link_newest(Disposable x, MemberList scope) noexcept:
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


# The current scope.


cdef MemberList outer_of(MemberList scope):
    """Return the nearest enclosing open scope. Deleting the ended scopes may run Python code."""
    # `_before` keeps the old value of a field until the function returns, here and elsewhere. Deleting the
    # last reference to a scope may run Python code, which must not run during the assignment to the field.
    cdef MemberList _before = scope.outer
    cdef MemberList outer = scope.outer
    while outer is not None and not outer.members.is_open:
        outer = outer.outer
    if scope.outer is not outer:
        scope.outer = outer
    return outer


cdef int make_current(MemberList scope) except -1:
    PyContextVar_Set(_current, scope)
    return 0


cdef bint is_current(MemberList scope) except -1:
    return scope is not None and current_scope_or_ended() is scope


cdef MemberList current_scope_or_ended():
    cdef PyObject* found = NULL
    PyContextVar_Get(_current, NULL, &found)
    value = None if found is NULL else <object>found
    Py_XDECREF(found)
    return value


cdef MemberList current_scope():
    cdef MemberList scope = current_scope_or_ended()
    while scope is not None and not scope.members.is_open:
        # It ended in another context. Read the scope again, because `outer_of` may run Python code.
        make_current(outer_of(scope))
        scope = current_scope_or_ended()
    return scope


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


cdef MemberList list_of(Disposable x):
    """Return the scope whose list contains `x`, or None. The scope may be ending."""
    cdef PyObject* found
    if x.link.owner is NULL:
        return None
    # An attached resource does not keep its scope alive: the scope's deallocation may have begun.
    found = x.link.owner.scope
    return <MemberList>found if Py_REFCNT(found) > 0 else None


cdef MemberList owner_of(Disposable x):
    return list_of(x) if x.link.owner is not NULL and x.link.owner.is_open else None


# Registration and disposal.


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
    cdef MemberList scope = current_scope() if is_owned else None
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
    cdef MemberList scope = current_scope() if is_owned else None
    while is_limited and scope is not None and scope.limits is not None:
        scope.make_room(x)
        if scope.members.is_open:
            break
        scope = current_scope()  # the scope ended in the meantime, on another thread or in a finalizer
    _enter(x, counters, scope)
    if _observer is not None:
        notify_created(x, site, thread)
    return 0


cdef inline void _enter(Disposable x, Counters counters, MemberList scope) noexcept:
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


def register(Disposable x not None, *, bint is_owned=True):
    """Count the new object `x` and add it to the current scope, as the last step of its creation.

    ``Disposable.__init__`` does this. Call it in classes that create objects without ``__init__``.

    With ``is_owned=False`` no scope owns it.

    Examples
    --------
    >>> from scopes import Disposable, new_dispose_scope
    >>> from scopes.lowlevel import register
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
    cdef MemberList _before = taker.scope  # see `outer_of`
    cdef MemberList scope = owner_of(giver)
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
    cdef MemberList scope
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
        cdef MemberList _scope = self.scope  # see `outer_of`
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
            "or move it out before its scope ends: scope.move_to_outer(x), scope.detach(x)"
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
        return owner_of(self)

    @property
    def _ended_scope(self):
        """The scope whose end disposed this, or None."""
        cdef MemberList scope = self.scope
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
        cdef MemberList scope = owner_of(self)
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
        cdef MemberList scope = owner_of(self)
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
        target = owner_of(<Disposable>other) if isinstance(other, Disposable) else other
        if target is not None and not isinstance(target, MemberList):
            raise TypeError(
                f"move_to_other_dispose_scope() takes a scope, a disposable that has one, or None, not "
                f"{type(other).__name__}: write x.move_to_other_dispose_scope(scope)"
            )
        cdef MemberList scope = owner_of(self)
        if scope is not None:
            scope.move((self,), <MemberList>target, False, True)
        elif target is not None:
            target.attach(self)
        return self


# The offset of the link in an object, in bytes, so that a link needs no pointer to its object.
cdef Disposable _example = Disposable.__new__(Disposable)
cdef Py_ssize_t _place_of_link = <char*>&_example.link - <char*><PyObject*>_example
