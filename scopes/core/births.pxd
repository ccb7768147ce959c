"""New instances of another library's classes: the interface for ``cimport``."""

from cpython.object cimport PyObject
from libcpp.unordered_map cimport unordered_map

from scopes.core.disposable cimport MemberList


cdef class Births:
    # Maps the address of an instance to the address of its scope, plus 1 in a strict block.
    cdef unordered_map[size_t, size_t] notes
    # The scopes, by address.
    cdef dict scopes

    cdef MemberList scope_of(self, PyObject* x)
    cdef bint is_strict(self, PyObject* x)


cdef Births new_births()
cdef bint fill(Births made) noexcept
cdef Births take_one(PyObject* x)
# Remove the note of `x`, if there is one.
cdef void forget(PyObject* x) noexcept
cdef void release_by(void (*release)(PyObject*) noexcept) noexcept
# Whether `x` may be allocated since the outermost open log of this thread began.
cdef bint may_be_new(PyObject* x) noexcept
# Whether this thread has paused recording, and whether it is inside ``scopes.torch.owning(strict=True)``.
cdef bint is_paused() noexcept
cdef bint is_strict() noexcept
