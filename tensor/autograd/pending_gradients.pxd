"""Gradients that backward is still summing. For `cimport`."""

cimport numpy as cnp

from tensor.core.tensor cimport TensorCore
from tensor.memory.buffer cimport Share
from tensor.tape.nodes cimport Node


cdef class PendingGradient:
    # The node, and the number of users whose gradients have not been added yet.
    cdef readonly Node node
    cdef Py_ssize_t users
    # The sum so far: None, an array, or a tensor if backward is recorded. For a call of a user's function, a
    # list with a PendingGradient or None for each output.
    cdef public object value
    # A share of the buffer if a tensor may use the array's memory, else None.
    cdef Share share
    # Whether no other code uses the array's memory, so that backward may write over it and return it without
    # a copy.
    cdef bint is_owned
    # For a leaf in a budget: the gradient as a tensor, instead of `value`. The budget may write it to a file.
    cdef TensorCore kept


cdef PendingGradient new_pending(Node node, Py_ssize_t users)
# Convert the complete gradient of a leaf to a tensor if a budget may write it to its file.
cdef int keep(PendingGradient pending) except -1
# The complete gradient of a leaf: an array, or a tensor if backward is recorded.
cdef object value_of(PendingGradient pending)
# Move the sum to a new PendingGradient, and leave `pending` empty.
cdef PendingGradient moved(PendingGradient pending)
cdef void clear(PendingGradient pending) noexcept
# Add `new` to the sum, in place if no other code uses the memory of one of the two.
cdef int add_array(PendingGradient to, cnp.ndarray new, Share share, bint is_owned) except -1
# Whether no other code uses the memory of a pending gradient now.
cdef bint may_be_written(cnp.ndarray array, Share share, bint is_owned) noexcept
# Return the gradient as a tensor with its own memory. If several nodes got the same array, `first` stores the
# tensor of the first node, and the others share its memory as ``clone()`` does.
cdef TensorCore tensor_of(PendingGradient pending, dict first, bint is_unowned)
cdef TensorCore with_history(TensorCore made, TensorCore of)
# Return a copy in C order.
cdef cnp.ndarray contiguous_copy(cnp.ndarray array)
# Return a copy, which is expanded if the array is: copy each memory location once.
cdef cnp.ndarray compact_copy(cnp.ndarray array)
