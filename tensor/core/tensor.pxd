"""What a tensor is: its values, its storage, and functions that create it. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject, Py_INCREF
from libc.stdint cimport uint64_t

from scopes.core.scope cimport Disposable
from tensor.memory.buffer cimport Buffer, Share


cdef enum:
    MAX_INLINE_BYTES = 16
    MAX_INLINE_DIMS = 4
    # Marker for `nbytes`: the values are in a file.
    IN_FILE = 255


cdef union InlineData:
    char bytes[MAX_INLINE_BYTES]
    float floats[4]
    double doubles[2]
    # For a disposed tensor: its first sizes, for error messages.
    unsigned int sizes[4]
    # For values in a file: a strong reference to the `FiledValues` that read them.
    void* filed


# Values in C order.
cdef struct InlineValues:
    InlineData data
    # 0 if there are no inline values; IN_FILE if the values are in a file.
    unsigned char nbytes
    # NumPy's type number.
    unsigned char type_number
    unsigned char ndim
    # Each fits a char, because no size exceeds the number of bytes.
    unsigned char dims[MAX_INLINE_DIMS]


# Copy the values of the new `array` and count them as live. Return False if they can't be stored inline.
# Raise MemoryError if they exceed the memory limit.
cdef bint take_values(InlineValues* values, cnp.ndarray array) except -1
# Count inline values of a tensor as live. Raise MemoryError if they exceed the memory limit.
cdef int count_inline(Py_ssize_t nbytes) except -1
# Clear values that were copied to an array. Their bytes stay counted as live.
cdef void mark_moved(InlineValues* values) noexcept
# Clear values and count their bytes as freed.
cdef void free_values(InlineValues* values) noexcept
cdef object dtype_of(InlineValues* values)
cdef tuple shape_of(InlineValues* values)
# Return a new array with these values. Its memory is not counted.
cdef cnp.ndarray array_with(InlineValues* values)


cdef class FiledValues:
    cdef readonly tuple shape
    cdef readonly cnp.dtype dtype
    # A weak reference to the array that owned the memory when the values were written to the file.
    # `layout` has the offset and strides of the values in that array, or is None if they fill it.
    cdef object root
    cdef tuple layout

    cdef int remember(self, cnp.ndarray array, cnp.ndarray root) except -1
    cdef cnp.ndarray array_in_memory(self)


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
    # 1 for a view or an alias of a tensor of its history group; 2 if it was made without that one's history.
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


cdef class TensorCore(StorageReference):
    pass


cdef class Handle(StorageReference):
    pass


cdef extern from "Python.h":
    PyObject* type_of "(PyObject *)Py_TYPE"(object x)

# The class of the tensors that ops create.
cdef PyObject* tensor_type


cdef inline bint is_tensor(object x):
    """Return whether `x` is a tensor. Check the type first: isinstance searches about 30 base classes."""
    return type_of(x) == tensor_type or isinstance(x, TensorCore)


# Return a tensor without memory, not counted and not registered.
cdef TensorCore new_tensor()
# Return a tensor over the new array, counted and registered with the current scope.
cpdef TensorCore wrap(cnp.ndarray array)
# Return a tensor over the new array, owned by no scope: for gradients and the state of optimizers.
cpdef TensorCore wrap_unowned(cnp.ndarray array)
# Return a new tensor with the values of `share`.
cpdef TensorCore wrap_share(Share share)
cpdef TensorCore wrap_share_unowned(Share share)
# Return a tensor over `out`, which NumPy computed from `array`, the array of `x`. If `out` is a view, the
# tensor joins the storage of `x`; else it owns the copy.
cpdef TensorCore view_of(TensorCore x, cnp.ndarray array, cnp.ndarray out)
