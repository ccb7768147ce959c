"""Storages: how tensors share, read, write and move buffers.

A *storage* is a tensor with its views and aliases on a buffer: a write to one changes the others. They form a
ring of raw pointers, and together count as one sharer of the buffer. Clones are other storages on the same
buffer. The first write to a storage copies the buffer's block of memory for its ring (`begin_write`), as
`tensor.memory.buffer` explains.

Each change of state is atomic: under the GIL no other thread runs between two lines that call no Python code.
Copying memory lets other threads run, so code checks its assumptions again after a copy.
"""

cimport numpy as cnp
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint64_t

from scopes.core.disposable cimport Disposable, hand_over_count, reference_if_alive
from tensor.core.filed_values cimport FiledValues
from tensor.core.inline_values cimport (
    IN_FILE, MAX_INLINE_DIMS, InlineValues, array_with, mark_moved, free_values,
)
from tensor.memory.allocator cimport count_donation, is_counted, report_overhead_by, uncount_small
from tensor.memory.buffer cimport (
    Buffer,
    Share,
    array_at,
    array_overhead,
    collector_header,
    empty,
    exported,
    new_buffer,
    new_small_buffer,
    new_share,
    shared_array,
)
from tensor.memory.buffer cimport copy as copy_array

import numpy as np

from tensor.memory.buffer import listed_buffers
from tensor.memory.holders import Held, list_holders_by

cnp.import_array()

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
    """Yield a `Held` for each large buffer, except for external memory."""
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
        yield Held(str((<object>root).dtype), shape, (<Buffer>buffer).nbytes, is_pinned, tuple(sorted(names)))


list_holders_by(_holders)


cdef int64_t _overhead() noexcept nogil:
    return _references_alive * _sizeof_reference + _joined * array_overhead


cdef int64_t _sizeof_reference = StorageReference.__basicsize__ + collector_header
report_overhead_by(_overhead)
