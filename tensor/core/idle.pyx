"""Idle tensors: no other code uses their memory, so that a budget may move their values to a file.

A buffer counts its sharers, shares and exports. It does not count ops that run now, on this thread or
another: they hold a reference to the array, which its reference count includes. Reference counts are exact
only with Python's global lock. Without it no tensor is idle.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t

from scopes.core.disposable cimport promoted
from tensor.core.filed_values cimport FiledValues
from tensor.core.inline_values cimport IN_FILE
from tensor.core.storage cimport StorageReference, is_unshared
from tensor.memory.allocator cimport is_counted
from tensor.memory.buffer cimport Buffer

from tensor.memory.buffer import listed_buffers

cnp.import_array()

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define HAS_EXACT_COUNTS 0
    #else
    #define HAS_EXACT_COUNTS 1
    #endif
    """
    bint HAS_EXACT_COUNTS

cdef extern from "Python.h":
    Py_ssize_t count_references "Py_REFCNT"(PyObject* x) noexcept


cdef bint _is_idle(StorageReference x, Py_ssize_t more) noexcept:
    """Return whether only `x` uses its memory, so that releasing it frees the memory.

    The caller holds `more` references to the array.
    """
    cdef PyObject* array = <PyObject*>x.stored
    cdef PyObject* root
    cdef Buffer buffer
    if not HAS_EXACT_COUNTS or not is_unshared(x) or x.is_donated or x.holds or x._node is not None:
        return False
    buffer = <Buffer>x.buffer
    root = <PyObject*>buffer.root
    # `buffer` above is a reference too.
    if buffer.shares or buffer.is_external or buffer.is_pinned or count_references(x.buffer) != 2:
        return False
    if cnp.PyArray_TYPE(x.stored) == cnp.NPY_OBJECT or not is_counted(buffer.root):
        return False
    if array == root:
        return count_references(array) == 2 + more
    return count_references(array) == 1 + more and count_references(root) == 2


def idle_tensors(Py_ssize_t least) -> list[StorageReference]:
    """Return the idle tensors and handles of at least `least` bytes.

    They have no history: they are optimizers' state, gradients of parameters, data.
    """
    candidates = []
    for each in listed_buffers():
        if (<Buffer>each).nbytes >= least and (<Buffer>each).sharers == 1 and (<Buffer>each).member != NULL:
            candidates.append(promoted((<Buffer>each).member))
    each = None  # drop the reference, which `_is_idle` would count
    found = []
    for x in candidates:
        if x is not None and _is_idle(<StorageReference>x, 0):
            found.append(x)
    return found


def move_to_file(StorageReference x not None, write) -> int:
    """Move the values of `x` to a file. ``write(array)`` writes them and returns their `FiledValues`.

    Return the number of bytes that are freed. It is 0 if `write` returns None, if other code uses the memory,
    or if it was written to during `write`. The next use of `x` reads the values back.
    """
    cdef cnp.ndarray array
    cdef FiledValues filed
    cdef Py_ssize_t nbytes
    cdef uint64_t epoch
    if not _is_idle(x, 0):
        return 0
    array = x.stored
    epoch = (<Buffer>x.buffer).epoch
    filed = write(array)
    if filed is None or x.stored is not array or not _is_idle(x, 1) or (<Buffer>x.buffer).epoch != epoch:
        return 0
    nbytes = (<Buffer>x.buffer).nbytes
    x.stored = None
    x.release_memory()
    Py_INCREF(filed)
    x.inlined.data.filed = <void*>filed
    x.inlined.nbytes = IN_FILE
    return nbytes
