"""What a tensor is: its values and storage, its creation and end, its handle, and donation of its memory.

A *storage* is a tensor with its views and aliases on a buffer: a write to one changes the others. They form a
ring of raw pointers, and together count as one sharer of the buffer. Clones are other storages on the same
buffer. The first write to a storage copies the buffer's block of memory for its ring (`begin_write`), as
`tensor.memory.buffer` explains.

Each change of state is atomic: under the GIL no other thread runs between two lines that call no Python code.
Copying memory lets other threads run, so code checks its assumptions again after a copy.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from scopes.core.scope cimport (
    Disposable,
    hand_over_count,
    hand_over_place,
    reference_if_alive,
    register_new,
    register_unowned,
)
from tensor.core.promotion cimport FIRST_OF_OTHERS, is_bfloat16, is_inexact
from tensor.memory.allocator cimport (
    count_donation,
    count_small,
    is_counted,
    report_overhead_by,
    uncount_small,
)
from tensor.memory.buffer cimport (
    Buffer,
    Share,
    array_at,
    array_overhead,
    collector_header,
    empty,
    exported,
    new_buffer,
    new_external,
    new_share,
    new_small_buffer,
    root_of,
    shared_array,
)
from tensor.memory.buffer cimport copy as copy_array

from functools import update_wrapper
from weakref import ref

import numpy as np

from scopes.core.scope import ending_by
from scopes.tracking.tracking import note_created, note_ended, record_of
from tensor._errors import TensorDisposedError
from tensor.memory.buffer import listed_buffers, offset_in, view_at
from tensor.memory.holders import LargeBuffer, list_large_buffers_by
from tensor.memory.out_of_memory import out_of_memory

cnp.import_array()


# --- Values inside a tensor ---------------------------------------------------------------------------------
#
# Store up to 16 bytes of values inside the tensor object, and create the array when it is first needed.
#
# An array needs three blocks of memory (object, shape, data), and its buffer a fourth: 290 bytes to store 4
# bytes. Most small tensors only take part in arithmetic, and never need an array.

cdef enum:
    PLAIN_DTYPES = 24  # NumPy's type numbers up to float16; dtypes of other libraries have larger ones

# NumPy's built-in dtypes by type number. Never freed.
cdef PyObject* _plain_dtypes[PLAIN_DTYPES]
for _number in range(PLAIN_DTYPES):
    _dtype = cnp.PyArray_DescrFromType(_number)
    Py_INCREF(_dtype)
    _plain_dtypes[_number] = <PyObject*>_dtype

cdef int64_t _bytes_inline = 0


cdef inline bint _is_inlinable(cnp.ndarray array):
    """Return whether the tensor can store the values of the new `array` inline."""
    cdef Py_ssize_t nbytes = cnp.PyArray_NBYTES(array)
    cdef int number = cnp.PyArray_TYPE(array)
    if nbytes == 0 or nbytes > MAX_INLINE_BYTES or cnp.PyArray_NDIM(array) > MAX_INLINE_DIMS:
        return False
    # A dtype with the same number can still differ, for example in byte order.
    if number >= PLAIN_DTYPES or <PyObject*>cnp.PyArray_DESCR(array) != _plain_dtypes[number]:
        return False
    if not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_OWNDATA):
        return False
    return not is_counted(array)


cdef bint take_values(InlineValues* values, cnp.ndarray array) except -1:
    cdef Py_ssize_t nbytes = cnp.PyArray_NBYTES(array)
    cdef int i
    if not _is_inlinable(array):
        return False
    count_inline(nbytes)
    memcpy(&values.data, cnp.PyArray_DATA(array), nbytes)
    values.type_number = cnp.PyArray_TYPE(array)
    values.ndim = cnp.PyArray_NDIM(array)
    for i in range(cnp.PyArray_NDIM(array)):
        values.dims[i] = cnp.PyArray_DIM(array, i)
    values.nbytes = nbytes
    return True


cdef int count_inline(Py_ssize_t nbytes) except -1:
    global _bytes_inline
    if not count_small(nbytes):
        raise out_of_memory()
    _bytes_inline += nbytes
    return 0


cdef void mark_moved(InlineValues* values) noexcept:
    global _bytes_inline
    _bytes_inline -= values.nbytes
    values.nbytes = 0


cdef void free_values(InlineValues* values) noexcept:
    uncount_small(values.nbytes, False)
    mark_moved(values)


cdef object dtype_of(InlineValues* values):
    return <object>_plain_dtypes[values.type_number]


cdef tuple shape_of(InlineValues* values):
    cdef list dims
    cdef int i
    if values.ndim == 1:
        return (values.dims[0],)
    dims = []
    for i in range(values.ndim):
        dims.append(values.dims[i])
    return tuple(dims)


cdef cnp.ndarray array_with(InlineValues* values):
    cdef cnp.npy_intp dims[MAX_INLINE_DIMS]
    cdef cnp.ndarray array = None
    cdef int i
    for i in range(values.ndim):
        dims[i] = values.dims[i]
    try:
        array = cnp.PyArray_SimpleNew(values.ndim, dims, values.type_number)
    except MemoryError:
        pass  # raise the error below, without this one as context: its traceback would keep arrays alive
    if array is None:
        raise out_of_memory()
    memcpy(cnp.PyArray_DATA(array), &values.data, values.nbytes)
    return array


cdef int64_t _less_overhead() noexcept nogil:
    # Subtract inline values: they count as live, and again in the size of the tensor object.
    return -_bytes_inline


report_overhead_by(_less_overhead)


# --- Values read from a file --------------------------------------------------------------------------------
#
# Tensor values stored in a file instead of in memory.

cdef class FiledValues:
    """Base class for the values of a tensor in a file. Subclasses define the file and read it.

    If other code still holds the array that was written to the file, the tensor gets this array back, not a
    copy. Such code is a running op, or an object that loads several tensors from one block.
    """

    def __init__(self, tuple shape, cnp.dtype dtype):
        self.shape = shape
        self.dtype = dtype

    cdef int remember(self, cnp.ndarray array, cnp.ndarray root) except -1:
        """Store where the values are in memory: in `array`, a view of `root` or `root` itself."""
        self.layout = None if array is root else (offset_in(array, root), (<object>array).strides)
        self.root = ref(root)
        return 0

    cdef cnp.ndarray array_in_memory(self):
        """Return the array that had the values, or None if its memory was freed."""
        cdef cnp.ndarray root = None if self.root is None else self.root()
        if root is None or self.layout is None:
            return root
        offset, strides = self.layout
        return view_at(root, offset, self.shape, strides, self.dtype)

    def read(self) -> cnp.ndarray:
        """Return a new array with the values."""
        raise NotImplementedError


# --- Storages -----------------------------------------------------------------------------------------------

cdef object _uint8 = np.dtype(np.uint8)
cdef int64_t _references_alive = 0
# The number of references that joined another tensor's storage (views and aliases), each with its own array.
cdef int64_t _joined = 0
cdef uint64_t tensors_made = 0


cdef class StorageReference(Disposable):
    """A reference to a storage: the common base of tensors and handles."""

    def __cinit__(self):
        global _references_alive
        _references_alive += 1

    def __dealloc__(self):
        global _references_alive
        _references_alive -= 1
        self.retire()
        self.release_memory()
        if self.is_donated:
            count_donation(False)

    cdef Buffer buffer_or_null(self):
        """Return the buffer, or None if this is empty."""
        return None if self.buffer == NULL else <Buffer>self.buffer

    cdef void release_memory(self) noexcept:
        """Leave the storage. The last member releases the storage's share of the buffer."""
        cdef PyObject* held = self.buffer
        if self.inlined.nbytes == IN_FILE:
            _forget_file(self)
        elif self.inlined.nbytes:
            free_values(&self.inlined)
        if held == NULL:
            return
        self.buffer = NULL
        if (<Buffer>held).member == <PyObject*>self:
            (<Buffer>held).member = self.next_in_storage
        if self.next_in_storage == NULL:
            (<Buffer>held).release()
        else:
            _leave_ring(self)
        Py_DECREF(<Buffer>held)

    cdef int release(self) except -1:
        # Free the array last, because that may call a user's `on_release`.
        cdef cnp.ndarray _last = self.stored
        _remember_kind(self)
        self.stored = None
        self.release_memory()
        if self.is_donated:
            self.is_donated = False
            count_donation(False)
        if self.gradient is not None and not is_empty(<StorageReference>self.gradient):
            (<StorageReference>self.gradient).ending = "it was a gradient, and ended with its tensor"
        self.forget_history()
        return 0

    cdef int forget_history(self) except -1:
        """Drop the node and the gradient."""
        cdef object gradient = self.gradient
        self._node = None
        if gradient is not None:
            self.gradient = None
            gradient.dispose()
        return 0

    @property
    def is_invalid(self) -> bool:
        """Whether this is empty: it was disposed, or its memory moved elsewhere."""
        # Another thread may have counted the disposal but not yet released the memory.
        return is_empty(self) or self.counters is None

    @property
    def _array(self):
        return array_of(self)

    def _live_array(self):
        """Return the array. Raise TensorDisposedError if this is empty."""
        cdef cnp.ndarray array = array_of(self)
        if array is None:
            self._raise_disposed()
        return array

    @property
    def _is_donated(self) -> bool:
        return self.is_donated

    @property
    def _grad(self):
        return self.gradient

    @_grad.setter
    def _grad(self, gradient):
        self.gradient = gradient

    @property
    def _ending(self):
        return self.ending

    @property
    def _buffer(self):
        if self.inlined.nbytes == IN_FILE:
            _read_back(self)
        return self.buffer_or_null()

    def _forget_history(self) -> None:
        """Drop the node and the gradient."""
        self.forget_history()

    def _footprint(self) -> tuple[int, int]:
        """Return a key that identifies the memory, and its size in bytes."""
        if self.buffer == NULL:
            return id(self), 0 if self.inlined.nbytes == IN_FILE else self.inlined.nbytes
        return <Py_ssize_t>self.buffer, (<Buffer>self.buffer).nbytes


# The value of `dims[0]` if the dtype and first sizes are stored for errors. Sizes of inline values are <= 16.
cdef enum:
    IS_REMEMBERED = 255


cdef void _remember_kind(StorageReference x) noexcept:
    """Store the dtype and the first sizes of `x` for error messages, in the memory of the inline values."""
    cdef InlineValues* inlined = &x.inlined
    cdef cnp.ndarray array = x.stored
    cdef tuple shape
    cdef int i, ndim, number
    if inlined.nbytes == IN_FILE:
        shape = (<FiledValues>inlined.data.filed).shape
        number = (<FiledValues>inlined.data.filed).dtype.type_num
        _forget_file(x)
        ndim = <int>len(shape)
        for i in range(min(ndim, MAX_INLINE_DIMS)):
            inlined.data.sizes[i] = <unsigned int>min(<Py_ssize_t>shape[i], <Py_ssize_t>0xFFFFFFFF)
    elif inlined.nbytes != 0:
        number = inlined.type_number
        ndim = inlined.ndim
        for i in range(ndim):
            inlined.data.sizes[i] = inlined.dims[i]
    elif array is not None:
        number = cnp.PyArray_TYPE(array)
        ndim = cnp.PyArray_NDIM(array)
        for i in range(min(ndim, MAX_INLINE_DIMS)):
            inlined.data.sizes[i] = <unsigned int>min(cnp.PyArray_DIM(array, i), <cnp.npy_intp>0xFFFFFFFF)
    else:
        return
    # Dtypes of other libraries, such as bfloat16, have numbers from 256 on: the upper byte is in `dims[1]`.
    inlined.type_number = <unsigned char>(number & 0xFF)
    inlined.dims[1] = <unsigned char>(number >> 8)
    inlined.ndim = <unsigned char>ndim
    inlined.dims[0] = IS_REMEMBERED


cdef str described_kind(StorageReference x):
    cdef InlineValues* inlined = &x.inlined
    if inlined.nbytes != 0 or inlined.dims[0] != IS_REMEMBERED:
        return "tensor"
    dtype = cnp.PyArray_DescrFromType(inlined.type_number | inlined.dims[1] << 8)
    sizes = [inlined.data.sizes[i] for i in range(min(inlined.ndim, MAX_INLINE_DIMS))]
    more = ", ..." if inlined.ndim > MAX_INLINE_DIMS else "," if inlined.ndim == 1 else ""
    return f"{dtype} tensor of shape ({', '.join(map(str, sizes))}{more})"


cdef int move_storage(StorageReference giver, StorageReference taker, str ending) except -1:
    cdef object node = giver._node
    if giver.inlined.nbytes == IN_FILE:
        _read_back(giver)
    # Another thread may have counted the disposal of `giver` but not yet released its memory.
    if is_empty(giver) or giver.counters is None:
        giver._raise_disposed()
    taker.inlined = giver.inlined
    _remember_kind(giver)
    giver.inlined.nbytes = 0
    taker.stored = giver.stored
    giver.stored = None
    taker.buffer = giver.buffer
    giver.buffer = NULL
    if taker.buffer != NULL and (<Buffer>taker.buffer).member == <PyObject*>giver:
        (<Buffer>taker.buffer).member = <PyObject*>taker
    if giver.next_in_storage != NULL:
        _replace_in_ring(giver, taker)
    taker._node = node
    giver._node = None
    taker.gradient = giver.gradient
    giver.gradient = None
    taker.history_group = giver.history_group
    taker._is_view = giver._is_view
    giver.ending = ending
    if giver.is_donated:
        giver.is_donated = False
        count_donation(False)
    hand_over_count(giver, taker)
    if node is not None:
        node.moved_to(taker)
    return 0


cdef cnp.ndarray store(StorageReference x):
    cdef cnp.ndarray array
    cdef Buffer buffer
    if x.inlined.nbytes == IN_FILE:
        return _read_back(x)
    array = array_with(&x.inlined)
    buffer = new_small_buffer(array)
    if x.inlined.nbytes == 0:
        return x.stored  # another thread created the array first
    if is_counted(array):
        uncount_small(x.inlined.nbytes, False)  # the pool's hook is active and has counted the array
    else:
        buffer.is_counted_here = True
    mark_moved(&x.inlined)
    attach_buffer(x, array, buffer)
    return array


# --- Values in a file ---------------------------------------------------------------------------------------


cdef cnp.ndarray _read_back(StorageReference x):
    cdef FiledValues filed = <FiledValues>x.inlined.data.filed
    # A running op may still read the array that was moved to the file. Its values are the same.
    cdef cnp.ndarray array = filed.array_in_memory()
    cdef Buffer buffer
    if array is None:
        array = filed.read()
    buffer = new_buffer(array)
    # Other threads and finalizers ran during the read. One may have read the values, or disposed `x`.
    if x.inlined.nbytes != IN_FILE or x.inlined.data.filed != <void*>filed:
        return array_of(x)
    _forget_file(x)
    attach_buffer(x, array, buffer)
    buffer.used_at = tensors_made
    return array


cdef void _forget_file(StorageReference x) noexcept:
    cdef PyObject* filed = <PyObject*>x.inlined.data.filed
    x.inlined.nbytes = 0
    Py_DECREF(<object>filed)


# --- Rings --------------------------------------------------------------------------------------------------


cdef void join_ring(StorageReference x, StorageReference other) noexcept:
    global _joined
    cdef PyObject* here = <PyObject*>other
    if other.next_in_storage == NULL:
        other.next_in_storage = other.previous_in_storage = here
    x.previous_in_storage = here
    x.next_in_storage = other.next_in_storage
    (<StorageReference>x.next_in_storage).previous_in_storage = <PyObject*>x
    other.next_in_storage = <PyObject*>x
    _joined += 1


cdef void _leave_ring(StorageReference x) noexcept:
    global _joined
    cdef PyObject* after = x.next_in_storage
    cdef PyObject* before = x.previous_in_storage
    x.next_in_storage = x.previous_in_storage = NULL
    _joined -= 1
    if after == before:
        # One tensor is left, which needs no ring.
        (<StorageReference>after).next_in_storage = (<StorageReference>after).previous_in_storage = NULL
    else:
        (<StorageReference>before).next_in_storage = after
        (<StorageReference>after).previous_in_storage = before


cdef void _replace_in_ring(StorageReference giver, StorageReference taker) noexcept:
    taker.next_in_storage = giver.next_in_storage
    taker.previous_in_storage = giver.previous_in_storage
    giver.next_in_storage = giver.previous_in_storage = NULL
    (<StorageReference>taker.previous_in_storage).next_in_storage = <PyObject*>taker
    (<StorageReference>taker.next_in_storage).previous_in_storage = <PyObject*>taker


# --- Values -------------------------------------------------------------------------------------------------


cdef bint is_expanded(cnp.ndarray array) noexcept:
    cdef int i
    if cnp.PyArray_IS_C_CONTIGUOUS(array) or cnp.PyArray_SIZE(array) == 0:
        return False
    for i in range(cnp.PyArray_NDIM(array)):
        if cnp.PyArray_STRIDE(array, i) == 0 and cnp.PyArray_DIM(array, i) > 1:
            return True
    return False


cdef Share take_snapshot(StorageReference x):
    cdef Buffer buffer
    cdef cnp.ndarray array = array_of(x)
    if array is None:
        x._raise_disposed()
    buffer = <Buffer>x.buffer
    if buffer.is_borrowed or buffer.exports > 0 or buffer.writers > 0:
        return share_of(copy_array(array))
    return new_share(buffer, array)


cdef Share take_snapshot_to_write(StorageReference x):
    cdef cnp.ndarray array = array_of(x)
    if array is None:
        x._raise_disposed()
    if is_expanded(array):
        return share_of(_in_c_order(array))
    return share_of(copy_array(array)) if is_small_view(x) else take_snapshot(x)


cdef bint is_small_view(StorageReference x) noexcept:
    return x.buffer != NULL and 2 * cnp.PyArray_NBYTES(x.stored) < (<Buffer>x.buffer).nbytes


cdef cnp.ndarray _in_c_order(cnp.ndarray array):
    """Return a C-contiguous copy."""
    cdef cnp.ndarray out = empty((<object>array).shape, (<object>array).dtype)
    out[...] = array
    return out


def snapshot_share(StorageReference x not None) -> Share:
    """Return a Share of the current values of `x`. Later writes to `x` do not change its ``.array``."""
    return take_snapshot(x)


def snapshot(StorageReference x not None) -> cnp.ndarray:
    """Return a read-only array with the current values of `x`, which later writes do not change.

    O(1), except that it copies if exported arrays exist, a write runs or the memory is borrowed.
    """
    return shared_array(take_snapshot(x))


def snapshot_block(StorageReference x not None) -> cnp.ndarray:
    """Return an array with the whole block of memory of `x` and its views, which later writes do not change.

    It copies if ``snapshot`` does: then it is an array of bytes, else it has the layout of the root array.
    """
    cdef Buffer buffer
    cdef cnp.ndarray block
    if array_of(x) is None:
        x._raise_disposed()
    buffer = <Buffer>x.buffer
    if buffer.is_borrowed or buffer.exports > 0 or buffer.writers > 0:
        block = empty((buffer.nbytes,), _uint8)
        _copy_block(buffer, block)
        return block
    return shared_array(new_share(buffer, buffer.root))


cpdef Share share_of(cnp.ndarray array):
    """Return a Share of the new `array`, which counts as live until the Share is freed."""
    return new_share(new_buffer(array), array)


def export(StorageReference x not None) -> cnp.ndarray:
    """Return a new array over the memory of `x` for code outside the library. A write to one changes both.

    It stays valid when `x` is disposed. As in NumPy, an expanded view is read-only.
    """
    cdef Buffer buffer
    cdef cnp.ndarray array
    while True:
        array = array_of(x)
        if array is None:
            x._raise_disposed()
        buffer = <Buffer>x.buffer
        if buffer.sharers == 1 or buffer.is_borrowed:
            break
        _separate(x)
    return exported(buffer, array, cnp.PyArray_ISWRITEABLE(array) and not is_expanded(array))


# --- Writes -------------------------------------------------------------------------------------------------


cdef Buffer begin_write(StorageReference x):
    cdef Buffer buffer
    cdef cnp.ndarray array
    while True:
        array = array_of(x)
        if array is None:
            x._raise_disposed()
        if is_expanded(array):
            raise RuntimeError(
                f"can't write to this expanded view of shape {(<object>array).shape}: several of its "
                "elements share one memory location. Write to x.clone() instead, or to the tensor that was "
                "expanded"
            )
        buffer = <Buffer>x.buffer
        if buffer.sharers == 1 and cnp.PyArray_ISWRITEABLE(array):
            buffer.writers += 1
            buffer.epoch += 1
            return buffer
        _separate(x)


cdef void end_write(Buffer buffer) noexcept:
    buffer.writers -= 1


cdef int _separate(StorageReference x) except -1:
    """Copy the block for the storage of `x`. Other sharers keep the old block.

    Do nothing if the storage changes during the copy: the caller checks, and tries again.
    """
    cdef Buffer old = <Buffer>x.buffer
    cdef Buffer new
    cdef uint64_t epoch = old.epoch
    cdef cnp.ndarray array = x.stored
    cdef cnp.ndarray block
    cdef PyObject* each = <PyObject*>x
    cdef bint is_alone = x.next_in_storage == NULL
    # Other threads may run during the copy.
    if is_alone:
        block = copy_array(array)
    else:
        block = empty((old.nbytes,), _uint8)
        _copy_block(old, block)
    new = new_buffer(block)
    if x.stored is not array or old.epoch != epoch or (x.next_in_storage == NULL) != is_alone:
        return 0
    # Do all steps that can fail before the exchange.
    arrays = [block] if is_alone else _moved_arrays(x, old, new)
    # Creating arrays can run the garbage collector, which may free tensors of the ring.
    if x.stored is not array or old.epoch != epoch or _count_ring(x) != len(arrays):
        return 0
    old.epoch += 1
    for moved in arrays:
        _exchange(each, <cnp.ndarray>moved, new)
        each = (<StorageReference>each).next_in_storage
    new.retain()
    old.release()
    return 0


cdef cnp.ndarray _same_place(cnp.ndarray array, Buffer old, Buffer new):
    """Return `array`, a view of `old`, as the same view of `new`, which has the same layout."""
    return array_at(new.root, <char*>cnp.PyArray_DATA(array) - old.data, array)


cdef list _moved_arrays(StorageReference x, Buffer old, Buffer new):
    """Return the arrays of the ring of `x`, in the order of the ring, as views of `new`."""
    cdef PyObject* each = <PyObject*>x
    moved = []
    while True:
        moved.append(_same_place((<StorageReference>each).stored, old, new))
        each = (<StorageReference>each).next_in_storage
        if each == <PyObject*>x or each == NULL:
            return moved


cdef Py_ssize_t _count_ring(StorageReference x) noexcept:
    cdef Py_ssize_t count = 1
    cdef PyObject* each = x.next_in_storage
    while each != NULL and each != <PyObject*>x:
        count += 1
        each = (<StorageReference>each).next_in_storage
    return count


cdef void _exchange(PyObject* x, cnp.ndarray array, Buffer new) noexcept:
    """Move `x` to `new`. Take no reference to `x`, because its deallocation may have begun."""
    cdef PyObject* before = (<StorageReference>x).buffer
    if (<Buffer>before).member == x:
        (<Buffer>before).member = NULL
    new.member = x
    Py_INCREF(new)
    (<StorageReference>x).buffer = <PyObject*>new
    (<StorageReference>x).stored = array
    Py_DECREF(<Buffer>before)


cdef int _copy_block(Buffer old, cnp.ndarray block) except -1:
    """Copy all elements of the root of `old` to the same offsets in `block`."""
    cdef cnp.ndarray root = old.root
    array_at(block, <char*>cnp.PyArray_DATA(root) - old.data, root)[...] = root
    return 0


cdef bint is_unshared(StorageReference x) noexcept:
    cdef cnp.ndarray array = x.stored
    cdef Buffer buffer
    if array is None or x.next_in_storage != NULL:
        return False
    buffer = <Buffer>x.buffer
    if buffer.sharers != 1 or buffer.exports > 0 or buffer.writers > 0 or buffer.is_borrowed:
        return False
    if not (cnp.PyArray_IS_C_CONTIGUOUS(array) or cnp.PyArray_IS_F_CONTIGUOUS(array)):
        return False
    return cnp.PyArray_NBYTES(array) == buffer.nbytes and cnp.PyArray_ISWRITEABLE(array)


# --- Queries ------------------------------------------------------------------------------------------------


def on_same_storage(StorageReference x not None) -> list[StorageReference]:
    """Return `x` and the other tensors and handles on its storage."""
    cdef PyObject* each = x.next_in_storage
    found = [x]
    while each != NULL and each != <PyObject*>x:
        other = reference_if_alive(each)
        if other is not None:
            found.append(other)
        each = (<StorageReference>each).next_in_storage
    return found


def members_of(Buffer buffer not None) -> list[StorageReference]:
    """Return the tensors and handles of one storage on `buffer`. A buffer can have several storages."""
    cdef object x = None if buffer.member == NULL else reference_if_alive(buffer.member)
    return [] if x is None else on_same_storage(x)


def relatives(StorageReference x not None) -> list[StorageReference]:
    """Return the other tensors and handles on the storage of `x` that share its gradient history."""
    found = []
    for each in on_same_storage(x):
        if each is not x and (<StorageReference>each).history_group == x.history_group:
            found.append(each)
    return found


def history_group_of(StorageReference x not None) -> int:
    """Return the history group of `x`: tensors of one group on one storage share gradient history."""
    return x.history_group


def join_storage(StorageReference x not None, StorageReference other not None, long group) -> None:
    """Move `x` to the storage of `other`. The array of `x` must lie in the memory of `other`."""
    cdef cnp.ndarray array = array_of(x)
    cdef Buffer buffer = other.buffer_or_null()
    if buffer is None or array is None or not buffer.contains(array):
        raise ValueError("a tensor can join a storage only if its array lies in the storage's memory")
    x.release_memory()
    Py_INCREF(buffer)
    x.buffer = <PyObject*>buffer
    x.history_group = group
    x._is_view = group == other.history_group
    join_ring(x, other)


def _holders():
    """Yield a `LargeBuffer` for each large buffer, except for external memory."""
    for buffer in listed_buffers():
        if (<Buffer>buffer).is_external:
            continue
        names = set()
        for x in members_of(buffer):
            names.add(type(x).__name__)
        if not names and (<Buffer>buffer).sharers > (<Buffer>buffer).shares:
            names.add("Tensor")
        if (<Buffer>buffer).shares:
            names.add("the graph")
        root = (<Buffer>buffer).root
        is_pinned = (<Buffer>buffer).sharers == 0
        shape = (<object>root).shape
        yield LargeBuffer(
            str((<object>root).dtype), shape, (<Buffer>buffer).nbytes, is_pinned, tuple(sorted(names))
        )


list_large_buffers_by(_holders)


cdef int64_t _overhead() noexcept nogil:
    return _references_alive * _sizeof_reference + _joined * array_overhead


cdef int64_t _sizeof_reference = StorageReference.__basicsize__ + collector_header
report_overhead_by(_overhead)


# --- Writes in blocks ---------------------------------------------------------------------------------------
#
# Context managers for writes to tensors.

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


# --- Idle tensors -------------------------------------------------------------------------------------------
#
# Idle tensors: no other code relies on their memory, so a memory budget may move their values to a file.
#
# A buffer counts exported arrays and running writes, which may change its memory, and sharers, which rely
# on its values. It does not count running ops on any thread, because they only read. Each op refers to its
# array, which stays alive until the op ends. If a tensor is used before then, it gets the array back
# (`FiledValues`). Moving a tensor frees no memory while an op reads it. So a budget moves such tensors
# last.

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
        if (<Buffer>x.buffer).used_at == tensors_made:
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
    _leave_memory(x, filed)
    array = root = None
    return nbytes if filed.root() is None else 0


cdef void _leave_memory(StorageReference x, FiledValues filed) noexcept:
    """Release the memory of `x`, whose values are in a file."""
    x.stored = None
    x.release_memory()
    Py_INCREF(filed)
    x.inlined.data.filed = <void*>filed
    x.inlined.nbytes = IN_FILE


def filed_values_of(StorageReference x not None) -> FiledValues | None:
    """Return the values of `x` in a file, or None if it is empty or its values are in memory."""
    return <FiledValues>x.inlined.data.filed if x.inlined.nbytes == IN_FILE else None


def exchange_filed_values(list exchanges not None) -> bool:
    """Give tensors in files new values: all of them, or none.

    Each exchange has a tensor, the `FiledValues` that it has, and those that it gets, of the same shape and
    dtype. Return False if another thread has read or disposed one of the tensors.
    """
    cdef StorageReference x
    cdef FiledValues before, after
    for x, before, after in exchanges:
        if x.inlined.nbytes != IN_FILE or x.inlined.data.filed != <void*>before:
            return False
        if after.shape != before.shape or after.dtype != before.dtype:
            raise ValueError("the new values of a tensor must have the shape and dtype of the old ones")
    # From here on no Python code runs: `exchanges` refers to the old values, so none is freed.
    for x, before, _ in exchanges:
        if x.inlined.nbytes != IN_FILE or x.inlined.data.filed != <void*>before:
            return False
    for x, before, after in exchanges:
        Py_INCREF(after)
        x.inlined.data.filed = <void*>after
        Py_DECREF(before)
    return True


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
    _leave_memory(x, filed)
    return True


# --- Tensors ------------------------------------------------------------------------------------------------

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject* kind, object arguments, PyObject* names)

cdef str _MOVED = "its handle was moved by move_handle()"
# The class of the tensors that ops create.
cdef PyObject* tensor_type = NULL
cdef long _last_group = 0


cdef class TensorCore(StorageReference):
    """The base of `Tensor`, which adds the operations."""

    def __init__(self, *arguments, **options):
        # Tensors are complete, and registered, after __new__.
        pass

    def __enter__(self):
        self._raise_if_disposed()
        return self

    def __exit__(self, *error):
        self.dispose()

    def move_handle(self) -> Handle:
        """Return the tensor's reference to its memory as a `Handle`, and leave the tensor empty.

        The gradient and the history move too. A backward pass accumulates the gradient in the handle, and
        calls no post-accumulate hook, because a hook takes a tensor. No counter changes. The emptied tensor
        keeps its place in its scope until another one replaces it (``DisposeScope.replace_with``).

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> y = tensor.Tensor.from_handle(x.move_handle())
        >>> x.is_invalid, y.tolist()
        (True, [1.0, 1.0])
        """
        cdef Handle handle = Handle.__new__(Handle)
        if is_empty(self):
            self._raise_disposed()
        move_storage(self, handle, _MOVED)
        note_ended(self, _MOVED)
        return handle

    @classmethod
    def from_handle(cls, Handle handle not None):
        """Return a tensor with the memory of `handle`, and leave `handle` empty. No scope owns the tensor.

        No counter changes: the new tensor replaces the one that the handle came from.

        Examples
        --------
        >>> import tensor
        >>> tensor.Tensor.from_handle(tensor.ones((1,)).move_handle()).item()
        1.0
        """
        cdef TensorCore x = TensorCore.__new__(cls)
        move_storage(handle, x, "a tensor took it")
        note_created(x, None)
        return x

    def _replace(self, StorageReference giver not None, str ending) -> None:
        """Take over the memory of `giver` and its place in its scope. Errors about `giver` give `ending`."""
        move_storage(giver, self, ending)
        hand_over_place(giver, self)

    def _raise_if_not_donatable(self) -> None:
        """Raise an error if this tensor is empty, or is a parameter, which belongs to its module."""
        if is_empty(self):
            self._raise_disposed()
        if type_of(self) != tensor_type:
            raise TypeError(
                f"can't donate a {type(self).__name__}, because it belongs to its module: pass its values as "
                "a plain tensor (x.detach().clone()), or write to it in place under no_grad()"
            )

    def _transferred(self, str ending not None) -> TensorCore:
        """Move everything, including the place in the scope, to a new tensor. `ending` is for later errors.

        If views, aliases or exported arrays share the memory, return a clone, so that writes to the clone do
        not change them.
        """
        cdef TensorCore taker
        self._raise_if_not_donatable()
        if self.next_in_storage != NULL or _is_seen_outside(self):
            taker = self.clone()
            self.ending = ending
            self.dispose()
            return taker
        taker = new_tensor()
        move_storage(self, taker, ending)
        hand_over_place(self, taker)
        return taker

    def _set_memory(self, cnp.ndarray array not None) -> None:
        """Replace the memory with that of the new `array`, and drop the history."""
        cdef Buffer buffer = new_buffer(array)
        if is_empty(self):  # creating the buffer may have run the garbage collector
            self._raise_disposed()
        self.release_memory()
        self._is_view = False
        attach_buffer(self, array, buffer)
        self.forget_history()

    @property
    def _is_small_view(self):
        """Whether this covers less than half of its memory, so that its copies copy at once."""
        return is_small_view(self)

    def _leave_larger_memory(self) -> None:
        """If this covers less than half of its memory, copy its values to memory of their own."""
        cdef Buffer buffer
        cdef cnp.ndarray array
        if is_small_view(self):
            array = copy_array(array_of(self))
            buffer = new_buffer(array)
            if is_empty(self):  # creating the buffer may have run the garbage collector
                self._raise_disposed()
            self.release_memory()
            attach_buffer(self, array, buffer)

    def _set_layout_of(self, TensorCore y not None) -> None:
        """Take the shape, strides and history of `y`, a view of this tensor. Copy no element."""
        cdef cnp.ndarray array = array_of(y)
        if is_empty(self):
            self._raise_disposed()
        if array is None or self.buffer == NULL or self.buffer != y.buffer:
            raise ValueError("a tensor can only take the shape of a view of its own memory")
        self.stored = array
        self._node = y._node

    def _share_values_of(self, TensorCore giver not None) -> None:
        """Share the values of `giver` until the first write, which copies them. Drop the history."""
        cdef Share share = take_snapshot_to_write(giver)
        if is_empty(self):
            self._raise_disposed()
        self.release_memory()
        self._is_view = False
        attach_buffer(self, share.array, share.buffer)
        self.forget_history()

    def _raise_if_disposed(self) -> None:
        if is_empty(self):
            self._raise_disposed()

    def _raise_disposed(self):
        scope = self._ended_scope
        if self.ending is not None:
            why = self.ending
            if "gradient" in why:
                cure = "Keep a copy: x.grad.clone()"
            elif "donated" in why:
                cure = "Use the result instead, or donate a copy: x.clone()"
            else:
                cure = "Use the object that took the handle, or pass x.clone() to it"
        elif scope is not None:
            why = ending_by(scope)
            cure = (
                "Move it out before that scope ends: call that scope's move_to_outer(x) or detach(x), where "
                "x may also be an object that holds it (a list, a module, an estimator). Or return it from a "
                "function decorated with @disposing"
            )
        else:
            why = "it was disposed by dispose()"
            cure = "Dispose it after its last use, or keep x.clone() or x.alias()"
        record = record_of(self)
        where = "" if record is None else f". It was created by {record.site}"
        if record is not None and record.ended_at is not None:
            where += f", and ended by {record.ended_at}"
        raise TensorDisposedError(f"this {described_kind(self)} is empty: {why}{where}. {cure}")


cdef class Handle(StorageReference):
    """A reference to a tensor's storage, to move it to another tensor. If freed unused, it frees the memory.

    Examples
    --------
    >>> import tensor
    >>> handle = tensor.ones((2,)).move_handle()
    >>> handle.is_invalid
    False
    >>> handle.dispose()
    >>> handle.is_invalid
    True
    """

    def __init__(self):
        raise TypeError("a Handle has no constructor: write x.move_handle()")

    def _raise_if_disposed(self) -> None:
        if is_empty(self):
            self._raise_disposed()

    def _raise_disposed(self):
        raise TensorDisposedError(
            "this handle is empty: it was disposed, or a tensor took it before. Take a handle once, with "
            "x.move_handle()"
        )


cdef bint _is_seen_outside(StorageReference x) noexcept:
    """Return whether exported arrays, or the owner of borrowed memory, share the memory."""
    return x.buffer != NULL and ((<Buffer>x.buffer).exports > 0 or (<Buffer>x.buffer).is_borrowed)


# --- New tensors --------------------------------------------------------------------------------------------


def use_tensor_type(kind: type) -> None:
    """Set the class of the tensors that ops create."""
    global tensor_type
    Py_INCREF(kind)  # never freed
    tensor_type = <PyObject*>kind


cdef TensorCore new_tensor():
    global tensors_made
    tensors_made += 1
    # Bypass Tensor.__new__, which raises an error with advice for users.
    return <TensorCore>(<PyTypeObject*>TensorCore).tp_new(<PyTypeObject*>tensor_type, (), NULL)


cpdef TensorCore wrap(cnp.ndarray array):
    """Return a tensor over the new `array`, counted and registered with the current scope.

    A small tensor copies the values and drops the array, so no other code may use the array.
    """
    cdef TensorCore x = new_tensor()
    if not take_values(&x.inlined, array):
        attach_buffer(x, array, new_buffer(array))
    register_new(x)
    return x


cpdef TensorCore wrap_unowned(cnp.ndarray array):
    """Return a tensor over the new `array`, owned by no scope: for gradients and the state of optimizers."""
    cdef Buffer buffer = new_buffer(array)
    cdef TensorCore x = new_tensor()
    attach_buffer(x, array, buffer)
    register_unowned(x)
    return x


cpdef TensorCore wrap_share(Share share):
    """Return a new tensor with the values of `share`."""
    cdef TensorCore x = new_tensor()
    attach_buffer(x, share.array, share.buffer)
    register_new(x)
    return x


cpdef TensorCore wrap_share_unowned(Share share):
    """Return a new tensor with the values of `share`, owned by no scope."""
    cdef TensorCore x = new_tensor()
    attach_buffer(x, share.array, share.buffer)
    register_unowned(x)
    return x


def wrap_borrowed(cnp.ndarray array not None) -> TensorCore:
    """Return a tensor over the external memory of `array`. Writes change that memory; clones copy at once.

    The base of the root array of `array` is an `External`.
    """
    return _wrap_external(array, True)


def wrap_mapped(cnp.ndarray array not None) -> TensorCore:
    """Return a tensor over the read-only external memory of `array`, which must not change.

    Clones share the memory, and the first write copies it.
    """
    return _wrap_external(array, False)


cdef TensorCore _wrap_external(cnp.ndarray array, bint is_borrowed):
    cdef Buffer buffer = new_external(array, is_borrowed)
    cdef TensorCore x = new_tensor()
    attach_buffer(x, array, buffer)
    register_new(x)
    return x


def wrap_snapshot(TensorCore x not None) -> TensorCore:
    """Return a new tensor with the values of `x`, without history. The first write to either copies them."""
    return wrap_share(take_snapshot_to_write(x))


def wrap_snapshot_unowned(TensorCore x not None) -> TensorCore:
    """Return a new tensor with the values of `x`, without history, owned by no scope."""
    return wrap_share_unowned(take_snapshot_to_write(x))


cpdef TensorCore view_of(TensorCore x, cnp.ndarray array, cnp.ndarray out):
    """Return a tensor over `out`, which NumPy computed from `array`, the array of `x`: a view or a copy."""
    cdef TensorCore y = new_tensor()
    cdef cnp.ndarray now
    cdef Buffer buffer
    while x.stored is not array:
        now = array_of(x)
        if now is None:
            x._raise_disposed()
        if now is array:
            continue  # the values were in a file, and `x` has its array back
        # A write on another thread moved `x` to new memory in the meantime.
        out = _found_again(now, array, out)
        array = now
    if array is None:
        x._raise_disposed()
    buffer = <Buffer>x.buffer
    if not buffer.contains(out):
        return wrap(out)
    Py_INCREF(buffer)
    y.buffer = x.buffer
    y.stored = out
    y.history_group = x.history_group
    y._is_view = True
    join_ring(y, x)
    register_new(y)
    return y


cdef cnp.ndarray _found_again(cnp.ndarray array, cnp.ndarray before, cnp.ndarray out):
    """Return the view of `array` that matches `out`, a view of `before`, which a write copied to `array`."""
    cdef cnp.ndarray root = root_of(array)
    cdef Py_ssize_t offset
    if root_of(out) is not root_of(before):
        return out  # NumPy made a copy
    if (<object>array).strides != (<object>before).strides:
        return copy_array(out)  # the move removed gaps between elements, so `out` has no counterpart
    offset = <char*>cnp.PyArray_DATA(out) - <char*>cnp.PyArray_DATA(before)
    return array_at(root, <char*>cnp.PyArray_DATA(array) - <char*>cnp.PyArray_DATA(root) + offset, out)


def detached(TensorCore x not None) -> TensorCore:
    """Return a new leaf on the storage of `x`, with its own history."""
    global _last_group
    cdef cnp.ndarray array = array_of(x)
    cdef TensorCore y = view_of(x, array, array)
    _last_group += 1
    y.history_group = _last_group
    y._is_view = False
    return y


# --- Donation -----------------------------------------------------------------------------------------------


def donate(TensorCore x not None) -> TensorCore:
    """Move `x` and its place in its scope to a new tensor whose memory the next op may write over."""
    cdef TensorCore donated
    if is_empty(x):
        x._raise_disposed()
    donated = new_tensor()
    move_storage(x, donated, "its memory was donated by donate()")
    donated.is_donated = True
    hand_over_place(x, donated)
    return donated


# Donation of operands to functions that run several ops.
#
# An op may write its result over a donated operand. A function that needs its operand in several ops is a
# `composite`. Inside it, the donated operand is an ordinary tensor, and only the op that gets ``last_use(x)``
# may write over it. After the function returns, the operand is disposed, unless it is the result.

cdef object _float32 = np.dtype(np.float32)

# The reason in the error when code uses an operand after its donation.
cdef str USED = "the op that it was donated to has used it"


cdef inline list _hold(object operands, list held):
    """Clear the donation mark of donated `operands`, append them to `held`, and return `held`."""
    for x in operands:
        if is_tensor(x) and ((<TensorCore>x).is_donated or (<TensorCore>x).holds):
            (<TensorCore>x).is_donated = False
            (<TensorCore>x).holds += 1
            if held is None:
                held = []
            held.append(x)
    return held


cdef int _end_hold(list held, object result, bint has_failed) except -1:
    cdef TensorCore x
    for each in held:
        x = <TensorCore>each
        if x.holds != 1:
            # Another op already used it, or an outer composite still needs it.
            x.holds = max(0, x.holds - 1)
            continue
        x.holds = 0
        if x.is_invalid:
            count_donation(False)
            continue
        x.is_donated = True
        # Keep the operand after an error, and if it is the result (of an in-place op).
        if not has_failed and each is not result:
            x.ending = USED
            each.dispose()
    return 0


# --- Operands of bfloat16 -----------------------------------------------------------------------------------


cdef int _count_narrow(object operands, bint* has_other) except -1:
    """Return the number of bfloat16 tensors. Set `has_other` if another tensor is floating or complex."""
    cdef int count = 0
    cdef cnp.ndarray array
    for x in operands:
        if is_tensor(x):
            # `stored` is None for inline values, which never are bfloat16.
            array = (<TensorCore>x).stored
            if (<TensorCore>x).inlined.nbytes == IN_FILE:
                array = array_of(<TensorCore>x)
            if array is not None and cnp.PyArray_TYPE(array) >= FIRST_OF_OTHERS:
                count += 1
            elif not has_other[0]:
                array = array_of(<TensorCore>x)
                has_other[0] = array is not None and is_inexact(array)
        elif type(x) is tuple or type(x) is list:
            count += _count_narrow(x, has_other)
    return count


cdef inline bint _has_narrow(tuple operands, dict options, bint* has_other) except -1:
    cdef int count = _count_narrow(operands, has_other)
    if options:
        count += _count_narrow(options.values(), has_other)
    return count > 0


cdef object _wide(object x, list pairs):
    """Return `x` with each bfloat16 tensor, also in a list or tuple, cast to float32.

    The tape records the casts. Append each such tensor with its float32 copy to `pairs`.
    """
    cdef list parts
    if is_tensor(x):
        if not is_bfloat16(array_of(<TensorCore>x)):
            return x
        wide = x.to(_float32)
        pairs.append((x, wide))
        return wide
    if type(x) is tuple or type(x) is list:
        parts = []
        for part in x:
            parts.append(_wide(part, pairs))
        return parts if type(x) is list else tuple(parts)
    return x


cdef object _narrow(object x):
    """Return a result with each float32 tensor cast to bfloat16."""
    cdef list parts
    if is_tensor(x):
        return x.bfloat16() if x.dtype == _float32 else x
    if isinstance(x, (tuple, list)):
        parts = []
        for part in x:
            parts.append(_narrow(part))
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x


cdef object _run_wide(object function, object operands, dict options, bint has_other):
    cdef list given = [], pairs = []
    cdef dict named = {}
    for x in operands:
        given.append(_wide(x, pairs))
    for name, x in options.items():
        named[name] = _wide(x, pairs)
    result = function(*given, **named)
    for x, wide in pairs:
        if result is wide:  # the function wrote in place
            return x.copy_(wide)
    return result if has_other or options.get("dtype") is not None else _narrow(result)


def widening(function):
    """Return `function` with its bfloat16 operands cast to float32 and its results rounded to bfloat16.

    For functions with several ops, or with a kernel that the dispatcher does not call. The tape records the
    casts. Results are not rounded if another operand is floating or complex, or `dtype` is given.
    """

    def run(*operands, **options):
        cdef bint has_other = False
        if _has_narrow(operands, options, &has_other):
            return _run_wide(function, operands, options, has_other)
        return function(*operands, **options)

    return update_wrapper(run, function)


# --- Composites ---------------------------------------------------------------------------------------------


def composite(function):
    """Return `function`, which calls several ops, with support for donated and bfloat16 operands."""

    def run(*operands, **options):
        cdef bint has_other = False
        cdef list held
        if _has_narrow(operands, options, &has_other):
            return _run_wide(run, operands, options, has_other)
        held = _hold(operands, None)
        if options:
            held = _hold(options.values(), held)
        if held is None:
            return function(*operands, **options)
        try:
            result = function(*operands, **options)
        except BaseException:
            _end_hold(held, None, True)
            raise
        _end_hold(held, result, False)
        return result

    return update_wrapper(run, function)


def last_use(x):
    """Return `x`. If it was donated to the running `composite`, mark that the next op may write over it."""
    if is_tensor(x) and (<TensorCore>x).holds == 1:
        (<TensorCore>x).holds = 0
        (<TensorCore>x).is_donated = True
    return x


def own(TensorCore x not None, *others):
    """Return a tensor to write to, with the values of `x`: the memory of a donated `x`, or a clone.

    Clone also if `x` shares its memory, has a graph, or is one of `others`, the other operands of the op.
    """
    cdef TensorCore y
    if not x.is_donated or x._node is not None or array_of(x) is None or not is_unshared(x):
        return x.clone()
    for other in others:
        if other is x:
            return x.clone()
    y = new_tensor()
    x.is_donated = False
    move_storage(x, y, USED)
    hand_over_place(x, y)
    count_donation(True)
    return y
