"""Memory of others. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject


cdef class Exported:
    # Owned by the exporter, and there until `view` is released.
    cdef Py_buffer view
    cdef bint has_references(self) noexcept
    cdef bint has_gaps(self) noexcept


cdef class External:
    # What keeps the memory: an `Exported`, an array. None while memory is at a bare address.
    cdef object source
    # What must stay besides; let go together with `source`.
    cdef object owner
    cdef object on_release
    # How much of the memory is counted as borrowed.
    cdef readonly Py_ssize_t nbytes
    # Neighbours in the list of all that are alive; raw, each leaves the list in `__dealloc__`.
    cdef PyObject* newer
    cdef PyObject* older
    cdef cnp.ndarray over_exported(self, Py_ssize_t offset, tuple shape, cnp.dtype dtype)
