# cython: language_level=3, auto_pickle=False
"""Change the owner of members: the part of a scope that attaches, moves and detaches.

``disposable.pyx`` explains the list of members, and why each change is atomic.
"""

cimport cython
from libcpp.atomic cimport memory_order_relaxed

from scopes.core.containers cimport find_in
from scopes.core.counters cimport Counters, counters_of
from scopes.core.disposable cimport Disposable, MemberList, link_newest, list_of, outer_of, unlink
from scopes.core.limits cimport make_room_for_all
from scopes.core.resources cimport Held, held_of, member_for, raise_disposed, remember

from scopes.core.disposable import step_lock as _step_lock
from scopes.core.errors import ScopeDisposedError
from scopes.core.resources import may_be_owned


cdef class OwningList(MemberList):
    """Base class of `DisposeScope`: its members, and changes of their owner."""

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
                if (<Held>x).resource is None if isinstance(x, Held) else x.counters is None:
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
                if isinstance(x, Held):
                    if before[i] is not None:
                        (<OwningList>before[i]).held.discard(x)
                else:
                    if before[i] is None:
                        before[i] = x.scope
                    x.scope = self
                if counters is not None:
                    counter = <Counters>counters[i] if isinstance(x, Held) else x.counters
                    counter.attached.fetch_add(1, memory_order_relaxed)
        return 0

    cdef int hold(self, list members) except -1:
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

    cdef int move(
        self, tuple xs, MemberList target, bint outward, bint may_have_ended, call=None
    ) except -1:
        cdef list members = [], counters = []
        cdef bint holds = False
        cdef MemberList admitted = None
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
                    counters.append(counters_of(type(x)) if isinstance(member, Held) else None)
                    holds = holds or isinstance(member, Held)
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
                (<OwningList>target).raise_ended("moved to")
            else:
                self.hand_over(members, <OwningList>target)
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
            if isinstance(x, Held):
                (<Held>x).forget()
                self.held.discard(x)
                (<Counters>counters[i]).detached.fetch_add(1, memory_order_relaxed)
            else:
                x.scope = None
                if x.counters is not None:
                    x.counters.detached.fetch_add(1, memory_order_relaxed)

    cdef int hand_over(self, list members, OwningList target) except -1:
        cdef Py_ssize_t i
        cdef Disposable x
        if target is self:
            return 0
        for i in range(len(members)):  # first the steps that may fail
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
