"""Memory of others. For `cimport`."""

from cpython.ref cimport PyObject


cdef class Exported:
    # Owned by the exporter, and there until `view` is released.
    cdef Py_buffer view


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
