"""New instances of another library's classes: the interface for ``cimport``."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map

from scopes.core.disposable cimport MemberList


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
    cdef MemberList scope_of(self, Note* note)


cdef Births new_births()
cdef bint fill(Births made) noexcept
cdef Births take_one(PyObject* x)
# Remove the note of `x`, if there is one, undo its count, and return its line or None.
cdef object uncount(PyObject* x)
# Remove the note of `x` by `locate`, if there is one, undo its count, and return its line and thread or None.
cdef object uncount_located(PyObject* x)
cdef void release_by(void (*release)(PyObject*) noexcept) noexcept
# Whether births of the class of `x` are recorded.
cdef bint is_recorded(PyObject* x) noexcept
# The number of the birth of `x`; 0 if it has no unread note.
cdef uint64_t serial_of(PyObject* x) noexcept
# Whether the birth with this number happened after the outermost open log of this thread began.
cdef bint is_in_log(uint64_t serial) noexcept
# Whether this thread has paused recording, and whether it is inside ``scopes.torch.owning(strict=True)``.
cdef bint is_paused() noexcept
cdef bint is_strict() noexcept
