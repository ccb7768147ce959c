"""Storages, and how they are read and written. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject

from scopes.core.disposable cimport Disposable
from tensor.core.inline_values cimport InlineValues
from tensor.memory.buffer cimport Buffer, Share


cdef class StorageReference(Disposable):
    # The values, in the buffer; None while they are inline, and once this is empty: read it by `array_of`.
    cdef cnp.ndarray stored
    cdef InlineValues inlined
    # A strong reference to a Buffer and one of its sharers, together with all on this storage; NULL without
    # `stored`. The code counts this reference explicitly: the collector, which clears fields of a cycle, must
    # not drop it before `__dealloc__` has given up the share.
    cdef PyObject* buffer
    # The other tensors of this storage: views and aliases that see each other's writes, in a ring; NULL if
    # there are none. The pointers are raw: a tensor leaves the ring before it is freed.
    cdef PyObject* next_in_storage
    cdef PyObject* previous_in_storage
    # None: no gradient is needed. A Leaf: gradients accumulate here. Another node: the tensor was computed.
    cdef public object _node
    # The gradient of a leaf, or of a tensor with `retain_grad()`.
    cdef object gradient
    # Tensors on one storage share gradient history if their group is the same; `detach()` begins a new one.
    cdef long history_group
    # donate() was called: the next op may use the memory.
    cdef bint is_donated
    # How many composite functions to which it was donated are at work, one calling the other: to them it is
    # an ordinary operand.
    cdef int holds
    # Why it is empty, if it was neither disposed nor ended by its scope.
    cdef str ending

    cdef Buffer buffer_or_null(self)
    cdef void let_go_of_memory(self) noexcept
    cdef int forget_history(self) except -1


# Let `x`, which holds no memory, be a sharer of `buffer`. Inline: each new tensor passes here.
cdef inline void lay(StorageReference x, cnp.ndarray array, Buffer buffer) noexcept:
    Py_INCREF(buffer)
    buffer.sharers += 1
    buffer.member = <PyObject*>x
    x.buffer = <PyObject*>buffer
    x.stored = array

# Whether `x` no longer has values.
cdef inline bint is_empty(StorageReference x) noexcept:
    return x.stored is None and x.inlined.nbytes == 0

# The array of `x`; it is created if the values are inline, and read if they are in a file. None if `x` is
# empty.
cdef inline cnp.ndarray array_of(StorageReference x):
    return x.stored if x.inlined.nbytes == 0 else store(x)

cdef cnp.ndarray store(StorageReference x)

# Let `taker`, which is new, have all that `giver` holds, and its count; `ending` says so in errors about
# `giver`.
cdef int move_storage(StorageReference giver, StorageReference taker, str ending) except -1
# "float32 tensor of shape (2, 3)": what `x` was before it became empty.
cdef str described_kind(StorageReference x)
# Put `x` into the storage of `other`, behind it.
cdef void join_ring(StorageReference x, StorageReference other) noexcept
# The current values of `x`, unaffected by later writes. O(1) unless code outside sees the memory.
cdef Share take_snapshot(StorageReference x)
# The same for a new tensor, in which each element needs a separate place.
cdef Share take_snapshot_to_write(StorageReference x)
# Make the array of `x` its own to write to, and say that a write is at work; `end_write` must follow.
cdef Buffer begin_write(StorageReference x)
cdef void end_write(Buffer buffer) noexcept
# Whether only `x` sees its memory, and sees all of it.
cdef bint is_unshared(StorageReference x) noexcept
# Whether several elements share one place in memory.
cdef bint is_expanded(cnp.ndarray array) noexcept
# Count the new `array` as live for as long as the result lives.
cpdef Share share_of(cnp.ndarray array)
