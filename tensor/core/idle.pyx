"""Idle tensors: no other code relies on their memory, so that a budget may move their values to a file.

A buffer counts all code that may write to its memory (exports and running writes), and all that relies on
its values (sharers). Ops that run now, on this thread or another, only read. They hold the array, which stays
alive until they end, and the tensor gets it back if it is used before (`FiledValues`). Moving such a tensor
frees nothing yet, so those that the running op may use come last.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t

from scopes.core.disposable cimport promoted
from tensor.core cimport storage
from tensor.core.filed_values cimport FiledValues
from tensor.core.inline_values cimport IN_FILE
from tensor.core.storage cimport StorageReference, is_unshared
from tensor.memory.allocator cimport is_counted
from tensor.memory.buffer cimport Buffer

from tensor.memory.buffer import listed_buffers

cnp.import_array()


cdef bint _is_idle(StorageReference x) except -1:
    """Return whether nobody but `x` relies on its memory, except for ops that read it now."""
    cdef Buffer buffer
    if not is_unshared(x) or x.is_donated or x.holds:
        return False
    if x._node is not None and x._node.next:
        return False  # an intermediate result, which the next op uses
    buffer = <Buffer>x.buffer
    if buffer.shares or buffer.is_external or buffer.is_pinned:
        return False
    return cnp.PyArray_TYPE(x.stored) != cnp.NPY_OBJECT and is_counted(buffer.root)


def idle_tensors(Py_ssize_t least) -> tuple[list[StorageReference], list[StorageReference]]:
    """Return the idle tensors and handles of at least `least` bytes, in two lists.

    The first has optimizers' state, gradients of parameters, and data. The second has those to move last:
    parameters, and then those that the running op may use.
    """
    cdef Buffer buffer
    cdef StorageReference x
    candidates = []
    for each in listed_buffers():
        buffer = <Buffer>each
        if buffer.nbytes >= least and buffer.sharers == 1 and buffer.member != NULL:
            candidates.append(promoted(buffer.member))
    first, parameters, in_use = [], [], []
    for each in candidates:
        x = <StorageReference>each
        if x is None or not _is_idle(x):
            continue
        if (<Buffer>x.buffer).used_at == storage.tensors_made:
            in_use.append(x)
        elif x._node is not None:
            parameters.append(x)
        else:
            first.append(x)
    return first, parameters + in_use


def move_to_file(StorageReference x not None, write) -> int:
    """Move the values of `x` to a file. ``write(array)`` writes them and returns their `FiledValues`.

    Return the number of bytes that are freed. It is 0 if `write` returns None, if the tensor is no longer
    idle or was written to during `write`, and if a running op still reads the array. The next use of `x`
    reads the values back.
    """
    cdef cnp.ndarray array, root
    cdef FiledValues filed
    cdef Py_ssize_t nbytes
    cdef uint64_t epoch
    if not _is_idle(x):
        return 0
    array = x.stored
    root = (<Buffer>x.buffer).root
    epoch = (<Buffer>x.buffer).epoch
    filed = write(array)
    if filed is None:
        return 0
    filed.remember(array, root)
    # From here on no Python code runs until the memory is released.
    if x.stored is not array or not _is_idle(x) or (<Buffer>x.buffer).epoch != epoch:
        return 0
    nbytes = (<Buffer>x.buffer).nbytes
    x.stored = None
    x.release_memory()
    Py_INCREF(filed)
    x.inlined.data.filed = <void*>filed
    x.inlined.nbytes = IN_FILE
    array = root = None
    return nbytes if filed.root() is None else 0
