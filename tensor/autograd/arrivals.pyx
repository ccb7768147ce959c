"""Gradients on their way through the graph, and who else looks at their memory.

A gradient may be written over, or handed out without a copy, if it is owned: a derivative has just made it,
and it has gone one way since. That ends where a second party may look: two inputs of one op that get the same
array, a user who gave it or a hook that saw it. These share the memory by a `Share`, whose count tells when
they are gone.
"""

cimport cython
cimport numpy as cnp

from tensor.autograd.fitting cimport as_array
from tensor.core.storage cimport is_expanded
from tensor.core.tensor cimport TensorCore, wrap, wrap_share, wrap_share_unowned, wrap_unowned
from tensor.memory.allocator cimport copy as copy_array
from tensor.memory.allocator cimport empty
from tensor.memory.buffer cimport Buffer, Share, new_share, root_of
from tensor.tape.nodes cimport Node

import numpy as np

from tensor.core.tensor import wrap_snapshot, wrap_snapshot_unowned

cnp.import_array()

cdef object _add = np.add


@cython.final
@cython.freelist(64)
cdef class Arrival:
    """What has come in for one node so far."""


cdef void let_go(Arrival arrival) noexcept:
    arrival.value = None
    arrival.share = None
    arrival.is_owned = False


cdef Arrival new_arrival(Node node, Py_ssize_t users):
    cdef Arrival arrival = Arrival.__new__(Arrival)
    arrival.node = node
    arrival.users = users
    return arrival


cdef Arrival moved(Arrival arrival):
    cdef Arrival other = new_arrival(arrival.node, 0)
    other.value = arrival.value
    other.share = arrival.share
    other.is_owned = arrival.is_owned
    let_go(arrival)
    return other


# Bytes: of less NumPy makes a new array sooner than it adds to the old one.
cdef Py_ssize_t _TINY = 1024


cdef int add_array(Arrival to, cnp.ndarray new, Share share, bint is_owned) except -1:
    cdef cnp.ndarray before = to.value
    if cnp.PyArray_NBYTES(new) >= _TINY:
        if may_be_written(before, to.share, to.is_owned):
            _add(before, new, before)
            return 0
        if may_be_written(new, share, is_owned):
            _add(before, new, new)
            to.value = new
            to.share = share
            to.is_owned = is_owned
            return 0
    to.value = as_array(_add(before, new))
    to.share = None
    to.is_owned = True
    return 0


cdef cnp.ndarray contiguous_copy(cnp.ndarray array):
    cdef cnp.ndarray out
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return copy_array(array)
    out = empty((<object>array).shape, <cnp.dtype>cnp.PyArray_DESCR(array))
    cnp.PyArray_CopyInto(out, array)
    return out


cdef cnp.ndarray compact_copy(cnp.ndarray array):
    cdef list once = []
    if not is_expanded(array):
        return contiguous_copy(array)
    for stride in (<object>array).strides:
        once.append(slice(None) if stride else slice(0, 1))
    return np.broadcast_to(contiguous_copy(array[tuple(once)]), (<object>array).shape)


cdef bint may_be_written(cnp.ndarray array, Share share, bint is_owned) noexcept:
    cdef Buffer buffer
    if is_owned:
        return True
    if share is None or not cnp.PyArray_ISWRITEABLE(array) or is_expanded(array):
        return False
    buffer = share.buffer  # who else has the gradient on its way has a share too
    return buffer.sharers == 1 and buffer.exports == 0 and buffer.writers == 0 and not buffer.is_borrowed


cdef bint _is_whole(cnp.ndarray array, cnp.ndarray root) noexcept:
    """Tell whether `array` is all of the memory of `root`, in an order that suits a gradient."""
    if array is root:
        return True
    return cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_NBYTES(array) == cnp.PyArray_NBYTES(root)


cdef TensorCore tensor_of(Arrival arrival, dict first, bint is_unowned):
    cdef cnp.ndarray array
    cdef TensorCore own
    cdef Share share = arrival.share
    if isinstance(arrival.value, TensorCore):
        return with_history(_wrapped_snapshot(arrival.value, is_unowned), arrival.value)
    array = arrival.value
    if arrival.is_owned and _is_whole(array, root_of(array)):
        return wrap_unowned(array) if is_unowned else wrap(array)
    if share is not None and _is_whole(array, share.buffer.root):
        share = new_share(share.buffer, array)
        return wrap_share_unowned(share) if is_unowned else wrap_share(share)
    if id(array) in first:
        return _wrapped_snapshot(first[id(array)], is_unowned)
    array = contiguous_copy(array)
    own = wrap_unowned(array) if is_unowned else wrap(array)
    first[id(arrival.value)] = own
    return own


cdef object _wrapped_snapshot(TensorCore x, bint is_unowned):
    return wrap_snapshot_unowned(x) if is_unowned else wrap_snapshot(x)


cdef TensorCore with_history(TensorCore made, TensorCore of):
    made._node = of._node
    return made
