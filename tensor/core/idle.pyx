"""Idle tensors: no other code relies on their memory, so a memory budget may move their values to a file.

A buffer counts exported arrays and running writes, which may change its memory, and sharers, which rely on
its values. It does not count running ops on any thread, because they only read. Each op refers to its array,
which stays alive until the op ends. If a tensor is used before then, it gets the array back (`FiledValues`).
Moving a tensor frees no memory while an op reads it. So a budget moves such tensors last.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport uint64_t

from scopes.core.disposable cimport reference_if_alive
from tensor.core cimport storage
from tensor.core.filed_values cimport FiledValues
from tensor.core.inline_values cimport IN_FILE
from tensor.core.storage cimport StorageReference
from tensor.memory.allocator cimport is_counted
from tensor.memory.buffer cimport Buffer

from tensor.memory.buffer import listed_buffers

cnp.import_array()


cdef bint _is_idle(StorageReference x, Py_ssize_t shares) except -1:
    """Return whether only `x` and `shares` saved values rely on its memory. Running ops are ignored."""
    cdef cnp.ndarray array = x.stored
    cdef Buffer buffer
    if array is None or x.next_in_storage != NULL or x.is_donated or x.holds:
        return False
    if x._node is not None and x._node.next:
        return False  # an intermediate result, which the next op uses
    buffer = <Buffer>x.buffer
    if buffer.sharers != shares + 1 or buffer.shares != shares or buffer.exports > 0 or buffer.writers > 0:
        return False
    if buffer.is_external or buffer.is_pinned or not is_counted(buffer.root):
        return False
    # The file gets the bytes in memory order, so the array must cover its memory without gaps.
    if not (cnp.PyArray_IS_C_CONTIGUOUS(array) or cnp.PyArray_IS_F_CONTIGUOUS(array)):
        return False
    if cnp.PyArray_NBYTES(array) != buffer.nbytes or not cnp.PyArray_ISWRITEABLE(array):
        return False
    return cnp.PyArray_TYPE(array) != cnp.NPY_OBJECT


def idle_tensors(Py_ssize_t least) -> tuple[list[StorageReference], list[StorageReference]]:
    """Return the idle tensors and `Handle` objects of at least `least` bytes, in two lists.

    The first list has the state of optimizers, gradients of parameters, and data. The second list has tensors
    to move last: parameters, and then tensors that the running op may use.
    """
    cdef Buffer buffer
    cdef StorageReference x
    candidates = []
    for each in listed_buffers():
        buffer = <Buffer>each
        if buffer.nbytes >= least and buffer.sharers == 1 and buffer.member != NULL:
            candidates.append(reference_if_alive(buffer.member))
    first, parameters, in_use = [], [], []
    for each in candidates:
        x = <StorageReference>each
        if x is None or not _is_idle(x, 0):
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

    Return the number of freed bytes: 0 if `write` returns None, if the tensor is not idle or was written to
    during `write`, or if a running op still reads the array. The next use of `x` reads the values back.
    """
    cdef cnp.ndarray array, root
    cdef FiledValues filed
    cdef Py_ssize_t nbytes
    cdef uint64_t epoch
    if not _is_idle(x, 0):
        return 0
    array = x.stored
    root = (<Buffer>x.buffer).root
    epoch = (<Buffer>x.buffer).epoch
    filed = write(array)
    if filed is None:
        return 0
    filed.remember(array, root)
    # From here on no Python code runs until the memory is released.
    if x.stored is not array or not _is_idle(x, 0) or (<Buffer>x.buffer).epoch != epoch:
        return 0
    nbytes = (<Buffer>x.buffer).nbytes
    _exchange(x, filed)
    array = root = None
    return nbytes if filed.root() is None else 0


cdef void _exchange(StorageReference x, FiledValues filed) noexcept:
    """Release the memory of `x`, whose values are in a file."""
    x.stored = None
    x.release_memory()
    Py_INCREF(filed)
    x.inlined.data.filed = <void*>filed
    x.inlined.nbytes = IN_FILE


def companion_of(Buffer buffer not None) -> StorageReference | None:
    """Return the only tensor on `buffer` if all other sharers are saved values, else None.

    `leave_together` moves the tensor to a file together with these values.
    """
    cdef StorageReference x
    if buffer.member == NULL:
        return None
    x = reference_if_alive(buffer.member)
    return x if x is not None and _is_idle(x, buffer.shares) else None


def leave_together(StorageReference x not None, Buffer buffer not None, FiledValues filed not None) -> bool:
    """Release the share of `x` in `buffer`, whose bytes are in the file of `filed`.

    The caller must hold a `Share` of the buffer from before the write to the file until this call, so that no
    code changes the bytes. Return False if other code uses the tensor or the buffer. At its next use the
    tensor gets new memory, because saved values may still rely on the old memory.
    """
    if x.buffer != <PyObject*>buffer or not _is_idle(x, buffer.shares):
        return False
    _exchange(x, filed)
    return True
