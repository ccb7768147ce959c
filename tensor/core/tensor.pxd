"""The tensor's inside. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject

from scopes.core.disposable cimport Disposable
from tensor.memory.buffer cimport Buffer, Share


cdef class StorageReference(Disposable):
    # The values, in the buffer; None once this is empty.
    cdef cnp.ndarray array
    # A strong reference to a Buffer and one of its sharers, together with all on this storage; NULL once empty. Counted
    # by hand: the collector, which clears fields of a cycle, must not take it before `__dealloc__` has let go of the share.
    cdef PyObject* buffer
    # The others on this storage: views and aliases that see each other's writes, in a ring; NULL when there are none.
    # Raw: who goes leaves the ring first.
    cdef PyObject* next_in_storage
    cdef PyObject* previous_in_storage
    # None: no gradient wanted; a Leaf: gradients gather here; another node: computed from such.
    cdef public object _node
    # Of leaves, and of tensors that retain theirs.
    cdef object gradient
    # Tensors on one storage share gradient history if their group is the same; `detach()` begins a new one.
    cdef long history_group
    # donate() was called: the next op may use the memory.
    cdef bint is_donated
    # Why it is empty, if it was neither disposed nor ended by its scope.
    cdef str ending

    cdef Buffer buffer_or_null(self)
    cdef void let_go_of_memory(self) noexcept
    cdef int forget_history(self) except -1


cdef class TensorCore(StorageReference):
    pass


cdef class Handle(StorageReference):
    pass


# A new tensor over a new array, counted and registered with the current scope.
cpdef TensorCore wrap(cnp.ndarray array)
# The same, owned by no scope: a gradient, an optimizer's state.
cpdef TensorCore wrap_unowned(cnp.ndarray array)
# A new tensor with the values of `share`.
cpdef TensorCore wrap_share(Share share)
cpdef TensorCore wrap_share_unowned(Share share)
# A new tensor over `out`, found by NumPy in the array of `x`: on the same storage, or a copy that NumPy needed.
cpdef TensorCore view_of(TensorCore x, cnp.ndarray out)
# The values that `x` has now, whatever is written later. O(1) unless outsiders look.
cdef Share claim_share(StorageReference x)
# Make the array of `x` its own to write to, and say that a write is at work; `end_write` must follow.
cdef Buffer begin_write(StorageReference x)
cdef void end_write(Buffer buffer) noexcept
# Whether `x` alone looks at its memory, all of it.
cdef bint is_unshared(StorageReference x) noexcept
cdef bint is_expanded(cnp.ndarray array) noexcept
# Count the new `array` as live for as long as the result lives.
cpdef Share share_of(cnp.ndarray array)
