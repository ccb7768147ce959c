# cython: language_level=3, auto_pickle=False
"""The scope: it owns objects that are created while it is current, and disposes them at its end.

``disposable.pyx`` explains the list of members, and why each change is atomic.
"""

from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident

from scopes.core.containers cimport find, find_in
from scopes.core.counters cimport counters_of
from scopes.core.disposable cimport (
    Disposable, MemberList, current_scope, dispose_one, hand_over_place, is_current, is_observed,
    make_current, outer_of, notify_closed, notify_opened, notify_watching, unlink
)
from scopes.core.disposable cimport owner_of as owner_of_disposable
from scopes.core.foreign cimport Foreign, harvest, has_keepers, move_out_kept, store_keeper_count
from scopes.core.keeping cimport is_anything_held, keeper_count, move_out_held
from scopes.core.limits cimport Limits, begin_in, end_in, make_room_for, make_room_for_all
from scopes.core.loans cimport Loan
from scopes.core.owning cimport OwningList
from scopes.core.resources cimport (
    Held, add_sizes, dispose_members, member_for, members_of, member_to_own, noted, raise_all, subjects_of
)

from warnings import warn

from scopes.core.limits import limits_of
from scopes.core.resources import may_be_attached, may_be_owned
from scopes.core.tracebacks import clear_library_frames

cdef extern from "Python.h":
    # That of Cython takes an object, to which it may hold one more reference.
    Py_ssize_t Py_REFCNT(PyObject* x) nogil

_NO_COPY = (
    "{} can't be copied or pickled: a copy would dispose the same disposables a second time. Open another "
    "scope with new_dispose_scope(), or copy what the scope owns"
)

# The function that `DisposeScope.survivors` calls.
cdef object _report_survivors = None


def report_survivors_by(report):
    """Make ``DisposeScope.survivors`` return ``report(members)``."""
    global _report_survivors
    _report_survivors = report


cdef class DisposeScope(OwningList):
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

    def __init__(self, name=None, *, limit=None, max_members=None):
        if self.members.scope is not NULL:
            raise RuntimeError(f"{self} was opened before: open another one with new_dispose_scope()")
        harvest()
        self.name = name
        self.thread = PyThread_get_thread_ident()
        self.outer = current_scope()
        if self.outer is not None and is_dropped(<PyObject*>self.outer):
            warn_of_dropped(self.outer)
        if limit is not None or max_members is not None:
            self.limits = (limits_of(name, limit, max_members),)
        if self.outer is not None and self.outer.limits is not None:
            self.limits = self.outer.limits if self.limits is None else self.limits + self.outer.limits
        store_keeper_count(self)
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
        # Only `Held` objects are left: all other members keep their scope alive. One may outlive the scope if
        # another thread or `gc.get_objects()` refers to it. So remove each from the list, which is freed now.
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
        if error is not None:
            clear_library_frames(error)

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
        cdef MemberList outer
        try:
            harvest()
        except BaseException as error:
            errors = noted(errors, error)
        try:
            if has_keepers() and self.members.count and self.members.is_open:
                move_out_kept(self, self.collect())
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
        """Raise an error unless the scope is open. Add new objects of other libraries to their scopes."""
        if not self.members.is_open:
            self.raise_ended(what)
        return harvest()

    cdef int make_room(self, Disposable x) except -1:
        return make_room_for(self.limits, x)

    cdef Limits own_limits(self):
        """Return the limits that were given to this scope, or None."""
        cdef Limits first
        if self.limits is None:
            return None
        first = <Limits>self.limits[0]
        return first if first.is_of(self) else None

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
            module is attached as one disposable. An object without any disposable gives a warning.

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
            counters.append(counters_of(type(x)) if isinstance(member, Held) else None)
            if isinstance(member, Foreign):
                (<Foreign>member).is_noticed = False
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
        if has_keepers():
            move_out_kept(self, [x for x in self.collect() if id((<Disposable>x).subject()) not in kept])
        if is_anything_held():
            move_out_held(self, kept)
        members = self.collect()
        while members:
            try:
                x = members.pop()
                if id(x.subject()) in kept or x.link.owner is not &self.members:
                    continue
                if isinstance(x, Held):
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
    cdef DisposeScope scope = None if before is None else <DisposeScope>owner_of_disposable(before)
    if scope is None:
        return 0
    scope.take_over([member_to_own(replacement)], None)
    if before.link.owner is not NULL:
        unlink(&before.link)
    if isinstance(before, Held):
        (<Held>before).forget()
        scope.held.discard(before)
    else:
        before.scope = None
    return 0


cdef bint is_dropped(PyObject* pointer) except -1:
    """Return whether only the context, the members and a new inner scope refer to the open scope `pointer`.

    A ``with`` block, a variable and a suspended generator each hold one more reference.
    """
    cdef Py_ssize_t count = Py_REFCNT(pointer)
    cdef MemberList scope = <MemberList>pointer
    if count > 2 + scope.members.count:
        return False
    for member in members_of(scope):
        count -= (<Disposable>member).scope is scope
    return count <= 2


cdef int warn_of_dropped(MemberList scope) except -1:
    warn(
        f"{scope} was never ended, and no variable refers to it: new tensors belong to it from now on. Write "
        "`with new_dispose_scope():`, or keep the scope and call its dispose()",
        ResourceWarning,
        source=scope,  # with tracemalloc, Python adds the lines that opened it
    )
    return 0


# A wrapper function would add a tenth to the time of an empty scope.
new_dispose_scope = DisposeScope
