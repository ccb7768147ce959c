# cython: language_level=3, auto_pickle=False
"""Lend members to a scope for a block."""

from libcpp.atomic cimport memory_order_relaxed

from scopes.core.containers cimport find_in
from scopes.core.counters cimport Counters, counters_of
from scopes.core.disposable cimport Disposable, MemberList, outer_of
from scopes.core.disposable cimport owner_of as owner_of_disposable
from scopes.core.limits cimport make_room_for_all
from scopes.core.owning cimport OwningList
from scopes.core.resources cimport Held, member_to_own

from scopes.core.resources import may_be_attached


cdef class Loan:
    """The context manager that ``DisposeScope.borrow`` returns."""

    def __cinit__(self, OwningList borrower not None, tuple lent not None):
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
            counters.append(counters_of(type(thing)) if isinstance(x, Held) else None)
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
            counter = unowned_counters[i] if isinstance(x, Held) else x.counters
            if counter is not None:
                (<Counters>counter).attached.fetch_add(1, memory_order_relaxed)
        self.members, self.owners = members, owners
        return self.lent[0] if len(self.lent) == 1 else self.lent

    def __exit__(self, *error):
        cdef list members = self.members, owners = self.owners
        cdef Disposable x
        cdef MemberList owner
        cdef Py_ssize_t i
        self.members = self.owners = None
        for i in range(len(members)):
            x = <Disposable>members[i]
            owner = <MemberList>owners[i]
            if owner is not None and not owner.members.is_open:
                owner = outer_of(owner)
            if x.link.owner is not &self.borrower.members or owner is self.borrower:
                continue
            counters = [counters_of(type(x.subject()))] if isinstance(x, Held) else [None]
            if owner is None:
                self.borrower.release_members([x], counters)
            else:
                if owner.held is None:
                    owner.held = set()
                self.borrower.hand_over([x], <OwningList>owner)

    def __repr__(self):
        return f"<{self.borrower} {'borrows' if self.members is not None else 'may borrow'} {len(self.lent)}>"
