"""Members that a scope borrows for a block: the interface for ``cimport``."""

from scopes.core.owning cimport OwningList


cdef class Loan:
    cdef OwningList borrower
    cdef tuple lent
    # The members and the owner of each; None outside of the block.
    cdef list members, owners
