"""Objects of other libraries in scopes: the interface for ``cimport``."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map

from scopes.core.scope cimport Disposable, DisposeScope


cdef struct Note:
    # The `Counters` in which the instance counts as created; `used` owns it.
    PyObject* counters
    # The address of the scope that owns the instance, plus 1 in a strict block; 0: none.
    size_t scope
    # The number of the birth.
    uint64_t serial
    # The line of the allocation, as a counted reference, and the thread; NULL and 0 without tracking.
    PyObject* site
    unsigned long thread


cdef class Births:
    # The notes by the address of the instance.
    cdef unordered_map[size_t, Note] notes
    # The scopes and counters that they refer to, by address.
    cdef dict used

    cdef bint take(self, PyObject* x, Note* note) noexcept
    cdef DisposeScope scope_of(self, Note* note)


cdef Births new_births()
cdef bint fill(Births made) noexcept
cdef Births take_one(PyObject* x)


cdef class Foreign(Disposable):
    cdef object adapter
    # A weak reference; None after the object was freed.
    cdef object reference
    cdef size_t address
    # The result of the adapter's `end`; None before.
    cdef object ending
    # Whether a scope got it as a new object.
    cdef bint is_noticed
    # Whether it was created inside ``scopes.torch.owning(strict=True)``.
    cdef bint is_strict
    # The number of its birth, if it has no owner and nothing has decided that; else 0.
    cdef uint64_t serial


# Whether there is an adapter for `x`.
cdef bint is_foreign(x)
# The `Foreign` of `x`, or None.
cdef Foreign foreign_of(x)
# The same, but create one without an owner if there is none.
cdef Foreign foreign_for(x)
# Register `x`, if `births` has a note of it, in the note's scope. Return whether it was registered.
cdef bint notice(x, Births births) except -1
