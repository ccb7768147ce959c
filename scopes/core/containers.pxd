"""Finding disposables: the interface for ``cimport``."""


cpdef bint is_disposable(x)
cpdef bint is_closable(x)
cpdef list find(objects, wanted, bint inside)
# The same for the arguments of the scope's method `call`. An argument in which nothing is found gives a
# warning, unless `call` is None.
cdef list find_in(tuple objects, wanted, bint inside, call)
# The items of a container, or the values of a mapping, as a new list. No code of subclasses runs.
cdef list items_of(x)
# The dict of an object's attributes, or None.
cdef object dict_of(x)
# The descriptors of the slots of a class, and the value of one, None where it is not set.
cdef list slots_of(kind)
cdef object slot_of(descriptor, x)
