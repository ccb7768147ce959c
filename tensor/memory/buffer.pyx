"""Buffers: blocks of memory that count their sharers and exports.

Two counts decide when to copy:

- ``sharers``: the holders that rely on the *values*. Each storage (a tensor with its views and aliases) is
  one, and so is each `Share`, for example a saved value of the tape. A clone is another storage. If there are
  several sharers, a writer copies first.
- ``exports``: the arrays outside the library that use the *memory*, and may write to it at any time. If there
  is one, a clone copies at once instead of sharing. The same holds during a write (``writers``).

So ``sharers > 1`` and ``exports > 0 or writers > 0`` are never both true.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

from tensor.memory cimport allocator
from tensor.memory.allocator cimport count_small, is_counted, pin, report_overhead_by, uncount_small

from sys import getsizeof as _getsizeof

import numpy as np

from tensor.memory.limits import out_of_memory

cnp.import_array()


# --- Arrays from the allocator, and the error if it refuses -------------------------------------------------


cpdef cnp.ndarray empty(tuple shape, object dtype, object like=None):
    """Return a new array with uninitialised values, or filled with the byte set by ``configure(fill=)``.

    The memory order is that of `like` if it has the same shape, else C order. A large array comes from the
    pool.

    Raises
    ------
    OutOfMemoryError
        If the limit or the system refuses.
    """
    try:
        return allocator.empty(shape, dtype, like)
    except MemoryError:
        pass  # raise below: as a context, this error's traceback would keep arrays alive
    raise out_of_memory()


cpdef cnp.ndarray zeros(tuple shape, object dtype):
    """Return a new array of zeros. Large arrays come from the pool. Raise the same errors as ``empty``."""
    try:
        return allocator.zeros(shape, dtype)
    except MemoryError:
        pass  # raise below: as a context, this error's traceback would keep arrays alive
    raise out_of_memory()


cpdef cnp.ndarray copy(cnp.ndarray array):
    """Return a copy of `array` in its memory order, from the pool if it is large. Errors as in ``empty``."""
    try:
        return allocator.copy(array)
    except MemoryError:
        pass  # raise below: as a context, this error's traceback would keep arrays alive
    raise out_of_memory()


# --- Buffers ------------------------------------------------------------------------------------------------


# Buffers of at least this size are listed for reports of memory holders.
cdef Py_ssize_t _LISTED = 1 << 14
cdef PyObject* _newest = NULL
# The numbers of objects, from which their overhead is computed.
cdef int64_t _buffers_alive = 0
cdef int64_t _shares_alive = 0
cdef int64_t _exports_alive = 0


@cython.final
@cython.no_gc  # the garbage collector does not traverse arrays, so `root` cannot be part of a cycle
@cython.freelist(256)
cdef class Buffer:
    """A block of memory that is counted once, even if several tensors use it."""

    def __cinit__(self):
        global _buffers_alive
        _buffers_alive += 1

    cdef void retain(self) noexcept:
        """Add a sharer."""
        self.sharers += 1

    cdef void release(self) noexcept:
        """Remove a sharer. After the last one, an exported block is pinned, no longer live."""
        self.sharers -= 1
        if self.sharers == 0 and self.exports > 0 and not self.is_external and not self.is_pinned:
            self.is_pinned = True
            pin(self.root, self.nbytes)

    cdef bint contains(self, cnp.ndarray array) noexcept:
        """Return whether `array` lies in this block. The addresses belong to the block while it is alive."""
        cdef char* start = <char*>cnp.PyArray_DATA(array)
        if self.data <= start < self.data + self.nbytes:
            return True
        return root_of(array) is self.root

    def __dealloc__(self):
        global _newest, _buffers_alive
        _buffers_alive -= 1
        if self.older != NULL:
            (<Buffer>self.older).newer = self.newer
        if self.newer != NULL:
            (<Buffer>self.newer).older = self.older
        elif _newest == <PyObject*>self:
            _newest = self.older
        if self.is_counted_here:
            uncount_small(self.nbytes, self.is_pinned)
        # The allocator counts its own blocks, live or pinned, until they are freed with the root array. For
        # external memory, the base of the root, an `External`, counts.


cdef Buffer new_buffer(cnp.ndarray array):
    cdef cnp.ndarray root = root_of(array)
    cdef object base = cnp.get_array_base(root)
    cdef Buffer buffer
    if isinstance(base, Share):
        return (<Share>base).buffer  # `array` came from a snapshot and is already counted
    buffer = Buffer.__new__(Buffer)
    buffer.root = root
    _measure(buffer)
    if not is_counted(root):
        if not count_small(buffer.nbytes):
            raise out_of_memory() from None
        buffer.is_counted_here = True
    if buffer.nbytes >= _LISTED:
        _list(buffer)
    return buffer


cdef Buffer new_small_buffer(cnp.ndarray array):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    buffer.root = array
    buffer.data = <char*>cnp.PyArray_DATA(array)
    buffer.nbytes = cnp.PyArray_NBYTES(array)
    return buffer


cdef Buffer new_external(cnp.ndarray array, bint is_borrowed):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    buffer.root = root_of(array)
    _measure(buffer)
    buffer.is_external = True
    buffer.is_borrowed = is_borrowed
    _list(buffer)
    return buffer


cdef void _measure(Buffer buffer) noexcept:
    """Set the bounds of the block. Strides may be negative or leave gaps."""
    cdef cnp.ndarray root = buffer.root
    cdef char* low = <char*>cnp.PyArray_DATA(root)
    cdef char* high = low
    cdef Py_ssize_t step
    cdef int i
    if cnp.PyArray_IS_C_CONTIGUOUS(root) or cnp.PyArray_IS_F_CONTIGUOUS(root):
        buffer.data = low
        buffer.nbytes = cnp.PyArray_NBYTES(root)
        return
    for i in range(cnp.PyArray_NDIM(root)):
        step = (cnp.PyArray_DIM(root, i) - 1) * cnp.PyArray_STRIDE(root, i)
        if step < 0:
            low += step
        else:
            high += step
    buffer.data = low
    buffer.nbytes = high - low + cnp.PyArray_ITEMSIZE(root)


cdef void _list(Buffer buffer) noexcept:
    global _newest
    buffer.older = _newest
    if _newest != NULL:
        (<Buffer>_newest).newer = <PyObject*>buffer
    _newest = <PyObject*>buffer


def listed_buffers() -> list[Buffer]:
    """Return live and pinned buffers of at least 16 KiB, and all external ones, newest first."""
    found = []
    cdef PyObject* each = _newest
    while each != NULL:
        # Listed buffers are alive: `__dealloc__` removes a buffer before it frees anything.
        found.append(<Buffer>each)
        each = (<Buffer>each).older
    return found


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Share:
    """A snapshot of the values of a buffer, valid as long as this object lives."""

    def __cinit__(self):
        global _shares_alive
        _shares_alive += 1

    def __dealloc__(self):
        global _shares_alive
        _shares_alive -= 1
        if self.buffer is not None:
            self.buffer.shares -= 1
            self.buffer.release()


cdef Share new_share(Buffer buffer, cnp.ndarray array):
    cdef Share share = Share.__new__(Share)
    share.buffer = buffer
    share.array = array
    buffer.sharers += 1
    buffer.shares += 1
    return share


@cython.final
@cython.no_gc
cdef class _Export:
    """The base object of an exported array. Its deallocation ends the export."""

    cdef Buffer buffer

    def __cinit__(self):
        global _exports_alive
        _exports_alive += 1

    def __dealloc__(self):
        global _exports_alive
        cdef Buffer buffer = self.buffer
        _exports_alive -= 1
        if buffer is not None:
            buffer.exports -= 1


cdef cnp.ndarray exported(Buffer buffer, cnp.ndarray array, bint is_writable):
    cdef _Export export
    cdef cnp.ndarray out
    # Count the export first, because the allocation may run code that moves the tensor's values.
    buffer.exports += 1
    buffer.epoch += 1
    try:
        export = _Export.__new__(_Export)
    except BaseException:
        buffer.exports -= 1
        raise
    export.buffer = buffer
    out = array_over(array, <char*>cnp.PyArray_DATA(array), export)
    if not is_writable:
        cnp.PyArray_CLEARFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    return out


cdef cnp.ndarray shared_array(Share share):
    cdef cnp.ndarray out = array_over(share.array, <char*>cnp.PyArray_DATA(share.array), share)
    cnp.PyArray_CLEARFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    return out


cdef cnp.ndarray array_at(cnp.ndarray root, Py_ssize_t offset, cnp.ndarray like):
    cdef cnp.ndarray out = array_over(like, <char*>cnp.PyArray_DATA(root) + offset, root)
    # `like` and `root` may differ in these flags.
    if cnp.PyArray_ISWRITEABLE(root):
        cnp.PyArray_ENABLEFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    else:
        cnp.PyArray_CLEARFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    cnp.PyArray_UpdateFlags(out, cnp.NPY_ARRAY_ALIGNED)
    return out


cdef extern from *:
    """
    /* Call NumPy's C functions with C types. Cython's declarations take dtypes as Python objects. */
    static inline PyObject *array_like(PyArrayObject *like, void *data)
    {
        PyArray_Descr *descr = PyArray_DESCR(like);
        Py_INCREF(descr);
        return PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(like), PyArray_DIMS(like),
                                    PyArray_STRIDES(like), data,
                                    PyArray_FLAGS(like) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED), NULL);
    }

    static inline PyObject *array_of_layout(PyArray_Descr *descr, int ndim, npy_intp *shape,
                                            npy_intp *strides, void *data)
    {
        Py_INCREF(descr);
        return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, data, NPY_ARRAY_WRITEABLE,
                                    NULL);
    }
    """
    object array_like(cnp.ndarray like, void* data)
    object array_of_layout(cnp.dtype dtype, int ndim, cnp.npy_intp* shape, cnp.npy_intp* strides, void* data)


cdef cnp.ndarray array_over(cnp.ndarray like, char* data, object base):
    cdef cnp.ndarray out = array_like(like, data)
    cnp.PyArray_UpdateFlags(out, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_F_CONTIGUOUS)
    cnp.set_array_base(out, base)
    return out


cdef cnp.ndarray root_of(cnp.ndarray array):
    cdef PyObject* base = <PyObject*>cnp.PyArray_BASE(array)
    while base != NULL and cnp.PyArray_Check(<object>base):
        array = <cnp.ndarray>base
        base = <PyObject*>cnp.PyArray_BASE(array)
    return array


def share_with(Share share not None, cnp.ndarray array not None) -> Share:
    """Return a share of `array`, which must lie in the buffer of `share`."""
    return new_share(share.buffer, array)


def offset_in(cnp.ndarray array not None, cnp.ndarray base not None) -> int:
    """Return the offset in bytes from the first element of `base` to that of `array`."""
    return <char*>cnp.PyArray_DATA(array) - <char*>cnp.PyArray_DATA(base)


def view_at(cnp.ndarray base not None, Py_ssize_t offset, tuple shape not None, tuple strides not None,
            cnp.dtype dtype not None) -> cnp.ndarray:
    """Return an array of this layout over the memory of `base`, from `offset` bytes after its first element.

    The whole array must lie in the memory of `base`.
    """
    cdef cnp.npy_intp sizes[64]
    cdef cnp.npy_intp steps[64]
    cdef int i, ndim = <int>len(shape)
    cdef cnp.ndarray out
    if ndim > 64 or len(strides) != ndim:
        raise ValueError(f"an array has at most 64 dimensions, with a stride for each: {shape}, {strides}")
    for i in range(ndim):
        sizes[i] = shape[i]
        steps[i] = strides[i]
    out = array_of_layout(dtype, ndim, sizes, steps, <char*>cnp.PyArray_DATA(base) + offset)
    cnp.PyArray_UpdateFlags(
        out, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_F_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED
    )
    cnp.set_array_base(out, base)
    return out


def owner_of(array: cnp.ndarray) -> cnp.ndarray:
    """Return the array that owns the memory of `array`, or the array whose base is external memory."""
    return root_of(array)


# The array object, and the block with its shape and strides.
cdef int64_t array_overhead = np.ndarray.__basicsize__ + 32
cdef int64_t collector_header = _getsizeof(()) - tuple.__basicsize__
# With the root array, and the header and rounding of the C library's allocator.
cdef int64_t _buffer_overhead = Buffer.__basicsize__ + array_overhead + 16
cdef int64_t _share_overhead = Share.__basicsize__
# With the exported array.
cdef int64_t _export_overhead = (_Export.__basicsize__ + 15) // 16 * 16 + array_overhead


cdef int64_t _overhead() noexcept nogil:
    return (
        _buffers_alive * _buffer_overhead
        + _shares_alive * _share_overhead
        + _exports_alive * _export_overhead
    )


report_overhead_by(_overhead)
