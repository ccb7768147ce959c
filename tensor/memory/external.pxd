"""External memory. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject


cdef class Exported:
    # Owned by the exporter, and valid until `view` is released.
    cdef Py_buffer view
    cdef bint has_references(self) noexcept
    cdef bint has_gaps(self) noexcept


cdef class External:
    # The object that keeps the memory: an `Exported` or an array; None for a bare address.
    cdef object source
    # Another object to keep alive, released together with `source`.
    cdef object owner
    cdef object on_release
    # The number of bytes counted as external.
    cdef readonly Py_ssize_t nbytes
    # The neighbours in the list of all live objects. Borrowed pointers: `__dealloc__` removes the object.
    cdef PyObject* newer
    cdef PyObject* older
    cdef cnp.ndarray over_exported(self, Py_ssize_t offset, tuple shape, cnp.dtype dtype)
