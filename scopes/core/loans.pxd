"""Members that a scope has for a block: the interface for ``cimport``."""

from scopes.core.owning cimport OwningList


cdef class Loan:
    cdef OwningList borrower
    cdef tuple lent
    # What stands for them, and who owned each; None outside of the block.
    cdef list members, owners
