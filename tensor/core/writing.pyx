"""Context managers for writes to tensors."""

cimport cython
cimport numpy as cnp

from tensor.core.storage cimport StorageReference, begin_write, end_write
from tensor.memory.buffer cimport Buffer

cnp.import_array()


@cython.final
cdef class writing:
    """Write to the array of a tensor: ``with writing(x) as array: array[...] = 1``.

    If other tensors share the values, the memory is copied first, so that they keep the old values. A clone
    taken during the write keeps the values that it was taken from.
    """

    cdef StorageReference x
    cdef Buffer buffer

    def __init__(self, StorageReference x not None):
        self.x = x

    def __enter__(self) -> cnp.ndarray:
        self.buffer = begin_write(self.x)
        return self.x.stored

    def __exit__(self, *error):
        cdef Buffer buffer = self.buffer
        self.buffer = None
        if buffer is not None:
            end_write(buffer)

    def __dealloc__(self):
        # End the write if an interrupt arrived between __enter__ and the ``with`` block.
        if self.buffer is not None:
            end_write(self.buffer)


@cython.final
@cython.no_gc_clear  # if the garbage collector cleared `buffers`, the writes would never end
cdef class writing_all:
    """Write to the arrays of several tensors, as ``writing`` does for one.

    All shared memory is copied before the ``with`` block runs.
    """

    cdef list tensors
    cdef list buffers

    def __init__(self, tensors):
        self.tensors = list(tensors)
        self.buffers = []

    def __enter__(self) -> list[cnp.ndarray]:
        cdef list arrays = []
        try:
            for x in self.tensors:
                self.buffers.append(begin_write(x))
                # Read the array now: another thread may dispose this tensor while others are prepared.
                arrays.append((<StorageReference>x).stored)
        except BaseException:
            self._end()
            raise
        return arrays

    def __exit__(self, *error):
        self._end()

    def __dealloc__(self):
        self._end()

    cdef void _end(self) noexcept:
        cdef list buffers = self.buffers
        self.buffers = None
        if buffers is not None:
            for buffer in buffers:
                end_write(<Buffer>buffer)
