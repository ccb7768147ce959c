"""Finding disposables: the interface for ``cimport``."""


cpdef bint is_disposable(x)
cpdef bint is_closable(x)
cpdef list find(objects, wanted, bint inside)
