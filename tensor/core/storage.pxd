"""Storages: how tensors read, write and share memory. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport uint64_t

from scopes.core.disposable cimport Disposable
from tensor.core.inline_values cimport InlineValues
from tensor.memory.buffer cimport Buffer, Share


cdef class StorageReference(Disposable):
    # The array over the buffer; None if the values are inline or in a file, or if the tensor is empty. Read
    # it with `array_of`.
    cdef cnp.ndarray stored
    cdef InlineValues inlined
    # A strong reference to the Buffer; NULL without `stored`. All tensors on the storage together are one
    # sharer. The reference is counted explicitly: the garbage collector clears object fields of a cycle, and
    # must not drop this reference before `__dealloc__` has released the share.
    cdef PyObject* buffer
    # The neighbors in a ring of all tensors on this storage (views and aliases); NULL if there is no other
    # tensor. The pointers are borrowed: a tensor leaves the ring before it is freed.
    cdef PyObject* next_in_storage
    cdef PyObject* previous_in_storage
    # None: requires no gradient. A Leaf: accumulates the gradient. Another node: the tensor is the result of
    # an op.
    cdef public object _node
    # The gradient of a leaf, or of a tensor with `retain_grad()`.
    cdef object gradient
    # Tensors on one storage share gradient history if their groups are equal. `detach()` starts a new group.
    cdef long history_group
    # donate() was called: the next op may write over the memory.
    cdef bint is_donated
    # It was made as a view or an alias of another tensor of its history group, its base or a view of it.
    cdef public unsigned char _is_view
    # The number of running composite functions, nested in each other, to which it was donated. Inside them it
    # is an ordinary operand.
    cdef short holds
    # Why it is empty, unless dispose() or the end of its scope emptied it.
    cdef str ending

    cdef Buffer buffer_or_null(self)
    cdef void release_memory(self) noexcept
    cdef int forget_history(self) except -1


# Attach `x`, which holds no memory, to `buffer` as a sharer. Inline, because it runs for each new tensor.
cdef inline void attach_buffer(StorageReference x, cnp.ndarray array, Buffer buffer) noexcept:
    Py_INCREF(buffer)
    buffer.sharers += 1
    buffer.member = <PyObject*>x
    x.buffer = <PyObject*>buffer
    x.stored = array

# Whether `x` no longer has values.
cdef inline bint is_empty(StorageReference x) noexcept:
    return x.stored is None and x.inlined.nbytes == 0

# The number of tensors created so far. `Buffer.used_at` stores it as the time of the last use.
cdef uint64_t tensors_made

# Return the array of `x`. Create it if the values are inline, read it if they are in a file. None if `x` is
# empty.
cdef inline cnp.ndarray array_of(StorageReference x):
    if x.inlined.nbytes != 0:
        return store(x)
    if x.buffer != NULL:
        (<Buffer>x.buffer).used_at = tensors_made
    return x.stored

cdef cnp.ndarray store(StorageReference x)

# Move the storage, the gradient state and the count of `giver` to the new tensor `taker`. Errors about
# `giver` give `ending` as the reason.
cdef int move_storage(StorageReference giver, StorageReference taker, str ending) except -1
# Describe `x` before it became empty, for example as "float32 tensor of shape (2, 3)".
cdef str described_kind(StorageReference x)
# Insert `x` into the ring of `other`, after `other`.
cdef void join_ring(StorageReference x, StorageReference other) noexcept
# Return a Share of the current values of `x`; later writes do not change it. O(1), except that it copies if
# exported arrays exist, a write runs or the memory is borrowed.
cdef Share take_snapshot(StorageReference x)
# Like `take_snapshot`, but copy an expanded array, so that a new tensor has memory for each element, and a
# small view, so that a new tensor does not keep the memory around it.
cdef Share take_snapshot_to_write(StorageReference x)
# Whether `x` covers less than half of its buffer.
cdef bint is_small_view(StorageReference x) noexcept
# Make `x` the only sharer of its buffer, and mark the start of a write. The caller must call `end_write`.
cdef Buffer begin_write(StorageReference x)
cdef void end_write(Buffer buffer) noexcept
# Return whether no other code uses the buffer of `x`, and `x` covers all of it.
cdef bint is_unshared(StorageReference x) noexcept
# Return whether several elements share one memory location.
cdef bint is_expanded(cnp.ndarray array) noexcept
# Return a Share of the new `array`, which counts as live until the Share is freed.
cpdef Share share_of(cnp.ndarray array)
