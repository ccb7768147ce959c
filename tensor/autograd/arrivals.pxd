"""Gradients on their way through the graph. For `cimport`."""

cimport numpy as cnp

from tensor.core.tensor cimport TensorCore
from tensor.memory.buffer cimport Share
from tensor.tape.nodes cimport Node


cdef class Arrival:
    # The node, and how many of its users' gradients have not come in yet.
    cdef readonly Node node
    cdef Py_ssize_t users
    # None, an array, or if backward is recorded a tensor. Of a call of a user's function: a list, for each
    # output an Arrival or None.
    cdef public object value
    # Keeps an array as it is where tensors share its memory, or None.
    cdef Share share
    # Whether nobody else looks at the memory of the array: it may be written over, and handed out as it is.
    cdef bint is_owned


cdef Arrival new_arrival(Node node, Py_ssize_t users)
# Another with all that has come in; `arrival` is left empty.
cdef Arrival moved(Arrival arrival)
cdef void let_go(Arrival arrival) noexcept
# Add `new` to the array that has come in, in place where nobody else looks at one of them.
cdef int add_array(Arrival to, cnp.ndarray new, Share share, bint is_owned) except -1
# Whether nobody else looks at the memory of a gradient on its way, now.
cdef bint may_be_written(cnp.ndarray array, Share share, bint is_owned) noexcept
# The gradient as a tensor with memory of its own. `first` has the tensor of each array that several nodes
# got: it is shared, as by ``clone()``.
cdef TensorCore tensor_of(Arrival arrival, dict first, bint is_unowned)
cdef TensorCore with_history(TensorCore made, TensorCore of)
# A copy in C order.
cdef cnp.ndarray contiguous_copy(cnp.ndarray array)
# A copy; where many elements are one place in memory, of that place alone.
cdef cnp.ndarray compact_copy(cnp.ndarray array)
