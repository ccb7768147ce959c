"""Buffers: blocks of memory that count their sharers and exports; external memory; and DLPack capsules.

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
from cpython.buffer cimport PyBUF_FULL_RO, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetInterrupt, PyErr_SetObject, PyErr_WriteUnraisable
from cpython.object cimport PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport PyObject, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport strchr

from tensor.memory cimport allocator
from tensor.memory.allocator cimport (
    borrow,
    count_small,
    is_counted,
    pin,
    report_overhead_by,
    return_borrowed,
    uncount_small,
)

from sys import getsizeof as _getsizeof

import numpy as np

from tensor._dtypes import is_bfloat16, load_bfloat16
from tensor.memory.out_of_memory import out_of_memory

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


# --- External memory ----------------------------------------------------------------------------------------
#
# External memory under tensors: held while an array uses it, and released with the last array.

cdef extern from "numpy/arrayobject.h":
    PyTypeObject PyArray_Type
    object PyArray_NewFromDescr(
        PyTypeObject* kind, cnp.dtype dtype, int ndim, const cnp.npy_intp* shape,
        const cnp.npy_intp* strides, void* data, int flags, PyObject* prototype
    )

cdef PyObject* _newest_external = NULL


@cython.final
@cython.no_gc  # only held by an `External`, which the garbage collector does not traverse either
cdef class Exported:
    """All bytes of an exporter's buffer. The exporter can't resize or close it until this object is freed.

    If the exporter is a memoryview, its ``release`` fails too. A second memoryview would not prevent that.
    Raises ``TypeError`` if the object does not support the buffer protocol.
    """

    def __cinit__(self, exporter):
        PyObject_GetBuffer(exporter, &self.view, PyBUF_FULL_RO)

    cdef bint has_references(self) noexcept:
        """Return whether the elements are references to Python objects."""
        return self.view.format != NULL and strchr(self.view.format, b"O") != NULL

    cdef bint has_gaps(self) noexcept:
        """Return whether the bytes are not contiguous, in C or Fortran order."""
        return not PyBuffer_IsContiguous(&self.view, b"A")

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


@cython.final
# The garbage collector does not traverse arrays: only the end of the program breaks a cycle through this
# object.
@cython.no_gc
cdef class External:
    """External memory: the base object of an array over it. Freeing the last such array ends the export.

    Then, in this order: the source and the owner are released, the bytes are no longer counted as external,
    and `on_release` is called, for example to close a file.

    Parameters
    ----------
    source
        The object that keeps the memory: an `Exported` or an array; None for a bare address.
    nbytes
        The number of bytes to count as external.
    owner
        Another object to keep alive.
    on_release
        Called without arguments. Its exceptions go to ``sys.unraisablehook``.
    """

    def __cinit__(self, source, Py_ssize_t nbytes, *, owner=None, on_release=None):
        global _newest_external
        self.source = source
        self.owner = owner
        self.on_release = on_release
        self.nbytes = nbytes
        borrow(nbytes)
        self.older = _newest_external
        if _newest_external != NULL:
            (<External>_newest_external).newer = <PyObject*>self
        _newest_external = <PyObject*>self

    def over(self, cnp.ndarray array not None) -> cnp.ndarray:
        """Return an array over the memory of `array`, with its layout, and with this object as its base."""
        return array_over(array, <char*>cnp.PyArray_DATA(array), self)

    cdef cnp.ndarray over_exported(self, Py_ssize_t offset, tuple shape, cnp.dtype dtype):
        """Return an array over the bytes of the `Exported` source from `offset` on, with this as its base.

        The caller has checked the bounds.
        """
        cdef Exported source = self.source
        cdef cnp.npy_intp sizes[cnp.NPY_MAXDIMS]
        cdef cnp.ndarray found
        cdef int i
        if len(shape) > cnp.NPY_MAXDIMS:
            raise ValueError(f"an array has at most {cnp.NPY_MAXDIMS} dimensions, not {len(shape)}")
        for i in range(<int>len(shape)):
            sizes[i] = shape[i]
        Py_INCREF(dtype)  # NumPy takes over this reference
        found = PyArray_NewFromDescr(
            &PyArray_Type, dtype, <int>len(shape), sizes, NULL, <char*>source.view.buf + offset,
            0 if source.view.readonly else cnp.NPY_ARRAY_WRITEABLE, NULL,
        )
        cnp.PyArray_UpdateFlags(found, cnp.NPY_ARRAY_ALIGNED)
        cnp.set_array_base(found, self)
        return found

    def at(self, size_t address) -> cnp.ndarray:
        """Return an array over the bytes at `address`, with this as its base."""
        cdef cnp.npy_intp size = self.nbytes
        cdef cnp.ndarray found = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, <void*>address)
        cnp.set_array_base(found, self)
        return found

    @property
    def has_release_action(self) -> bool:
        """Whether there is a callback to call, or an owner to release."""
        return self.on_release is not None or self.owner is not None

    def __dealloc__(self):
        global _newest_external
        cdef object on_release = self.on_release
        if self.older != NULL:
            (<External>self.older).newer = self.newer
        if self.newer != NULL:
            (<External>self.newer).older = self.older
        elif _newest_external == <PyObject*>self:
            _newest_external = self.older
        else:
            return  # never listed: the constructor raised an error
        self.source = None
        self.owner = None
        self.on_release = None
        return_borrowed(self.nbytes)
        if on_release is not None:
            _call(on_release)


cdef void _call(object on_release) noexcept:
    """Call `on_release`. Report exceptions as unraisable, and raise an interrupt again afterwards."""
    cdef bint is_interrupt = False
    try:
        on_release()
    except BaseException as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        PyErr_SetObject(type(error), error)
        PyErr_WriteUnraisable(on_release)
    if is_interrupt:
        PyErr_SetInterrupt()


def cancel_callbacks() -> list[object]:
    """Remove all callbacks, and return them."""
    cdef PyObject* each = _newest_external
    calls = []
    while each != NULL:
        if (<External>each).on_release is not None:
            calls.append((<External>each).on_release)
            (<External>each).on_release = None
        each = (<External>each).older
    return calls


# --- DLPack -------------------------------------------------------------------------------------------------
#
# Conversion between arrays and DLPack capsules, as NumPy does it, with support for bfloat16.

# DLPack's codes for the CPU device and for element types.
cdef tuple _CPU = (1, 0)
cdef enum:
    UNSIGNED = 1
    BFLOAT = 4

# The fields of dlpack.h up to the dtype.
cdef struct DLDevice:
    int32_t device_type
    int32_t device_id

cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype

cdef struct DLManagedTensorVersioned:
    uint32_t major
    uint32_t minor
    void* manager_ctx
    void* deleter
    uint64_t flags
    DLTensor dl_tensor


cdef DLTensor* _tensor_in(object capsule) except NULL:
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        return &(<DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")).dl_tensor
    # Before version 1 of DLPack, the structure begins with the tensor.
    return <DLTensor*>PyCapsule_GetPointer(capsule, "dltensor")


cdef bint _relabel(object capsule, uint8_t old, uint8_t new) except -1:
    """Change the 16-bit element type of `capsule` from `old` to `new`. Return whether it was `old`."""
    cdef DLTensor* x = _tensor_in(capsule)
    if x.dtype.code != old or x.dtype.bits != 16 or x.dtype.lanes != 1:
        return False
    x.dtype.code = new
    return True


def capsule_of(array, max_version, copy):
    """Return a capsule over the memory of `array`. The arguments are those of ``__dlpack__``."""
    if not is_bfloat16(array.dtype):
        return array.__dlpack__(max_version=max_version, copy=copy)
    # NumPy can't export bfloat16. Export the bits as integers.
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version, copy=copy)
    _relabel(capsule, UNSIGNED, BFLOAT)
    return capsule


class _Relabelled:
    """The memory of a producer of bfloat16, passed to NumPy as integers."""

    def __init__(self, producer, device, copy):
        self._device = producer.__dlpack_device__()
        options = {} if device is None else {"dl_device": _CPU}
        if copy is not None:
            options["copy"] = copy
        try:
            self._capsule = producer.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # the producer implements DLPack before version 1
            self._capsule = producer.__dlpack__()
        self.is_bfloat16 = _relabel(self._capsule, BFLOAT, UNSIGNED)

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def array_of(producer, device=None, copy=None):
    """Return an array over the memory of `producer`. The arguments are those of ``numpy.from_dlpack``."""
    try:
        return np.from_dlpack(producer, device=device, copy=copy)
    except (RuntimeError, BufferError):  # BufferError since NumPy 2.5
        relabelled = _Relabelled(producer, device, copy)
        if not relabelled.is_bfloat16:
            raise
    return np.from_dlpack(relabelled).view(load_bfloat16())
