# cython: language_level=3, auto_pickle=False
"""The scope: it owns what is created while it is current, and disposes what is left at its end.

``disposable.pyx`` says how members are linked, and what makes each change one step.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident
from libcpp.atomic cimport memory_order_relaxed

from scopes.core.containers cimport find
from scopes.core.counters cimport Counters, counters_of
from scopes.core.disposable cimport (
    Disposable, Link, MemberList, current_scope, dispose_one, hand_over_place, is_current, is_observed,
    link_newest, list_of, make_current, member_at, outer_of, promoted, tell_closed, tell_opened, unlink
)
from scopes.core.disposable cimport owner_of as owner_of_disposable
from scopes.core.foreign cimport harvest
from scopes.core.resources cimport (
    Held, dispose_members, held_of, member_for, new_member_for, noted, raise_all, raise_disposed, remember,
    subjects_of
)

from scopes.core.disposable import step_lock as _step_lock
from scopes.core.errors import ScopeDisposedError
from scopes.core.resources import may_be_attached, may_be_owned
from scopes.core.tracebacks import clear_library_frames

NO_COPY = (
    "{} can't be copied or pickled: a copy would dispose the same disposables a second time. Open another "
    "scope with new_dispose_scope(), or copy what the scope owns"
)

# What `DisposeScope.survivors` asks.
cdef object _report_survivors = None


def report_survivors_by(report):
    """Let ``DisposeScope.survivors`` return what ``report(members)`` returns."""
    global _report_survivors
    _report_survivors = report


cdef class DisposeScope(MemberList):
    """Owns the tensors that are created while it is current, and disposes those still alive when it ends.

    It is current from its creation until it is disposed; ``with`` disposes it at the end of the block. It
    holds tensors weakly: the memory of a tensor whose last reference goes is given back at once. The
    scope keeps other objects, which you attach, alive until it ends.

    Parameters
    ----------
    name
        For reports and errors.

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
    """

    def __init__(self, name=None):
        if self.members.scope is not NULL:
            raise RuntimeError(f"{self} was opened before: open another one with new_dispose_scope()")
        harvest()
        self.name = name
        self.thread = PyThread_get_thread_ident()
        self.outer = current_scope()
        self.members.scope = <PyObject*>self
        self.members.is_open = True
        try:
            make_current(self)
            if is_observed():
                tell_opened(self)
        except BaseException:
            self.end()
            raise

    def __dealloc__(self):
        # Members that are left are resources: they leave when `held` goes.
        self.members.is_open = False

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
            Of what the members' own ``dispose()`` raised, after all of them were disposed.
        """
        self.__exit__(None, None, None)

    cdef int end(self) except -1:
        cdef object errors = None
        cdef MemberList outer
        try:
            harvest()
        except BaseException as error:
            errors = noted(errors, error)
        # From here on nobody enters. The second who ends it finds it ended.
        if not self.members.is_open:
            if errors is not None:
                raise_all(errors, f"while {self} looked for its members")
            return 0
        self.members.is_open = False
        try:
            outer = outer_of(self)
            if is_current(self):
                make_current(outer)
        except MemoryError:
            pass  # `current_dispose_scope` looks past those that have ended
        if self.members.count:
            errors = dispose_members(self, errors)
        if is_observed():
            try:
                tell_closed(self)
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

    @property
    def outer_scope(self):
        """The nearest scope outward that has not ended."""
        return outer_of(self)

    @property
    def _outer(self):
        """The scope around it, which may have ended."""
        return self.outer

    @property
    def is_disposed(self):
        """Whether the scope has ended."""
        return not self.members.is_open

    cdef list collect(self):
        """Return the members, oldest first."""
        cdef list found = []
        cdef Link* link
        cdef Disposable x
        # No Python code runs during the walk: a list that grows runs none.
        with cython.critical_section(_step_lock):
            link = self.members.ring.newer
            while link is not &self.members.ring:
                x = promoted(member_at(link))
                if x is not None:
                    found.append(x)
                link = link.newer
        return found

    cdef int complete(self, what) except -1:
        """Be open and own all that was created here, or raise an error."""
        if not self.members.is_open:
            self.raise_ended(what)
        return harvest()

    @property
    def disposables_view(self):
        """What the scope owns, oldest first."""
        self.complete("asked for its members")
        return tuple(subjects_of(self.collect()))

    @property
    def disposables_count(self):
        """How many the scope owns."""
        return len(self)

    @property
    def nbytes(self):
        """The memory of what the scope owns, in bytes; what several members share counts once."""
        self.complete("asked for its size")
        return self.size()

    cdef object size(self):
        cdef dict sizes = {}
        for member in self.collect():
            if isinstance(member, Held):
                resource = (<Held>member).resource
                key, nbytes = id(resource), getattr(resource, "nbytes", 0)
                if not isinstance(nbytes, int):
                    nbytes = 0
            else:
                key, nbytes = member._footprint()
            sizes[key] = max(nbytes, sizes.get(key, 0))
        return sum(sizes.values())

    def survivors(self):
        """Return what the scope owns, by the line that created it; see ``scopes.leaks``.

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
        self.complete("asked for its members")
        return self.members.count

    def __bool__(self):
        return True  # an empty scope is still a scope: `scope or other` must not lose it

    def contains(self, x):
        """Tell whether the scope owns `x`. A scope that has ended owns nothing."""
        cdef Disposable member = member_for(x)
        return member is not None and self.members.is_open and member.link.owner is &self.members

    def __contains__(self, x):
        return self.contains(x)

    def attach(self, *xs):
        """Take over disposables, from whatever scope owns them.

        Parameters
        ----------
        *xs
            Disposables, or containers of them in any nesting; objects with ``close()`` count too. A module
            is attached as one disposable.

        Returns
        -------
        The argument, or the tuple of several.

        Raises
        ------
        ScopeDisposedError
            If this scope has ended; all owners are as before.
        TensorDisposedError
            If one of the tensors is disposed; all owners are as before.
        TypeError
            For an iterator, which looking through it would use up; all owners are as before.

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
        for x in find(xs, may_be_attached, False):
            member = new_member_for(x)
            members.append(member)
            if isinstance(member, Held):
                counters.append(counters_of(type(x)))
            else:
                member._raise_if_disposed()
                counters.append(None)
        self.take_over(members, counters)
        return xs[0] if len(xs) == 1 else xs

    cdef int take_over(self, list members, list counters) except -1:
        """Own `members` from now on, all or none; count them as attached, unless `counters` is None."""
        cdef Py_ssize_t i
        cdef Disposable x
        cdef Counters counter
        # Owners so far: let go of at the very end, for their last references may run Python code.
        cdef list before = [None] * len(members)
        if self.held is None:
            self.held = set()
        with cython.critical_section(_step_lock):
            if not self.members.is_open:
                self.raise_ended("attached to")
            # First what may fail.
            for i in range(len(members)):
                x = <Disposable>members[i]
                if x.counters is None and not isinstance(x, Held):
                    raise_disposed(x)  # on another thread, just now
            self.hold(members)
            for i in range(len(members)):
                x = <Disposable>members[i]
                if x.link.owner is &self.members:
                    continue
                before[i] = list_of(x)
                if x.link.owner is not NULL:
                    unlink(&x.link)
                link_newest(x, self)
                if isinstance(x, Held):
                    if before[i] is not None:
                        (<DisposeScope>before[i]).held.discard(x)
                else:
                    if before[i] is None:
                        before[i] = x.scope
                    x.scope = self
                if counters is not None:
                    counter = <Counters>counters[i] if isinstance(x, Held) else x.counters
                    counter.attached.fetch_add(1, memory_order_relaxed)
        return 0

    cdef int hold(self, list members) except -1:
        """Keep alive what stands for resources among `members`, all or none; those known before for them."""
        cdef Py_ssize_t i
        cdef Disposable x
        cdef Held known
        try:
            for i in range(len(members)):
                if isinstance(members[i], Held):
                    known = held_of((<Held>members[i]).resource)
                    if known is None:
                        remember(<Held>members[i])
                    else:
                        members[i] = known
                    self.held.add(members[i])
        except MemoryError:
            for i in range(len(members)):
                x = <Disposable>members[i]
                if isinstance(x, Held) and x.link.owner is not &self.members:
                    self.held.discard(x)
            raise
        return 0

    def detach(self, *xs):
        """Let go of what this scope owns among `xs`; no scope will dispose it.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     x, y = scope.detach(tensor.ones((2,)), tensor.zeros((2,)))
        >>> x.is_invalid, y.is_invalid
        (False, False)
        """
        self.move(xs, None, False, False)
        return xs[0] if len(xs) == 1 else xs

    def move_to_outer(self, *xs):
        """Hand what this scope owns among `xs` to the scope around it; an outermost scope detaches it.

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
        self.move(xs, None, True, False)
        return xs[0] if len(xs) == 1 else xs

    def move_to_other(self, other, *xs):
        """Hand what this scope owns among `xs` to `other`; None detaches it.

        Raises
        ------
        ScopeDisposedError
            If this scope or `other` has ended; all owners are as before.
        """
        if other is not None and not isinstance(other, DisposeScope):
            raise TypeError(
                f"move_to_other() takes the scope first, or None, not a {type(other).__name__}: write "
                "scope.move_to_other(other_scope, x), or x.move_to_other_dispose_scope(y) to go where y is"
            )
        self.move(xs, other, False, False)
        return xs[0] if len(xs) == 1 else xs

    cdef int move(self, tuple xs, MemberList target, bint outward, bint may_have_ended) except -1:
        cdef list members = [], counters = []
        cdef bint holds = False
        if not self.members.is_open:
            if may_have_ended:
                return 0
            self.raise_ended("asked to give something away")
        # Most often a single tensor: finding it would take longer than moving it.
        if len(xs) == 1 and isinstance(xs[0], Disposable) and not hasattr(type(xs[0]), "__disposables__"):
            members, counters = [xs[0]], [None]
        else:
            for x in find(xs, may_be_owned, True):
                member = member_for(x)
                if member is not None:
                    members.append(member)
                    counters.append(counters_of(type(x)) if isinstance(member, Held) else None)
                    holds = holds or isinstance(member, Held)
        while True:  # what may run Python code, until nothing is left to do before the step
            if outward:
                target = outer_of(self)
            if holds and target is not None and target.held is None:
                target.held = set()
            elif not outward or target is None or target.members.is_open:
                break
        with cython.critical_section(_step_lock):
            if not self.members.is_open:
                if may_have_ended:
                    return 0
                self.raise_ended("asked to give something away")
            if target is None:
                self.let_go(members, counters)
            elif not target.members.is_open:
                (<DisposeScope>target).raise_ended("moved to")
            else:
                self.hand_over(members, <DisposeScope>target)
        return 0

    cdef void let_go(self, list members, list counters) noexcept:
        """Leave those of `members` that are here without an owner."""
        cdef Py_ssize_t i
        cdef Disposable x
        for i in range(len(members)):
            x = <Disposable>members[i]
            if x.link.owner is not &self.members:
                continue
            unlink(&x.link)
            if isinstance(x, Held):
                (<Held>x).forget()
                self.held.discard(x)
                (<Counters>counters[i]).detached.fetch_add(1, memory_order_relaxed)
            else:
                x.scope = None
                if x.counters is not None:
                    x.counters.detached.fetch_add(1, memory_order_relaxed)

    cdef int hand_over(self, list members, DisposeScope target) except -1:
        """Give those of `members` that are here to `target`."""
        cdef Py_ssize_t i
        cdef Disposable x
        if target is self:
            return 0
        for i in range(len(members)):  # first what may fail
            x = <Disposable>members[i]
            if isinstance(x, Held) and x.link.owner is &self.members:
                target.held.add(x)
        for i in range(len(members)):
            x = <Disposable>members[i]
            if x.link.owner is not &self.members:
                continue
            unlink(&x.link)
            link_newest(x, target)
            if isinstance(x, Held):
                self.held.discard(x)
            else:
                x.scope = target
        return 0

    def dispose_everything(self):
        """Dispose all that the scope owns; the scope goes on."""
        self.dispose_everything_but()

    def dispose_everything_but(self, *keep):
        """Dispose what the scope owns but for `keep`, containers of them, and what they hold.

        What is in `keep` and not owned by this scope is left as it is.

        Returns
        -------
        The argument, or the tuple of several.

        Raises
        ------
        ExceptionGroup
            Of what the members' own ``dispose()`` raised, after all of them were disposed.

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
        self.complete("told to dispose its members")
        cdef set kept = set(map(id, find(keep, may_be_owned, True)))
        self.complete("told to dispose its members")
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
                    unlink(&x.link)  # its count has moved elsewhere; it kept its place here
                    x.scope = None
            except BaseException as error:
                errors = noted(errors, error)
        if errors is not None:
            raise_all(errors, f"while {self} disposed its members")
        return keep[0] if len(keep) == 1 else keep

    @staticmethod
    def replace_with(original, replacement):
        """Give `replacement` the place of `original` in its scope; no counter moves.

        Without an owner nothing happens. ``nn.Parameter`` uses it to take over a tensor.

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
                replacement._raise_if_disposed()  # on another thread, just now
        else:
            _replace_resource(original, replacement)
        return replacement

    def __copy__(self):
        raise TypeError(NO_COPY.format(self))

    def __deepcopy__(self, memo):
        raise TypeError(NO_COPY.format(self))

    def __reduce_ex__(self, protocol):
        raise TypeError(NO_COPY.format(self))

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
    scope.take_over([new_member_for(replacement)], None)
    if before.link.owner is not NULL:
        unlink(&before.link)
    if isinstance(before, Held):
        (<Held>before).forget()
        scope.held.discard(before)
    else:
        before.scope = None
    return 0


# A function of its own around it would cost a tenth of an empty scope.
new_dispose_scope = DisposeScope
