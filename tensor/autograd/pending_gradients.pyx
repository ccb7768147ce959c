"""Gradients that backward is still summing, and whether other code uses their memory.

Backward may write over a gradient it owns, or return it without a copy. It owns the result that a derivative
computed for one input. It does not own an array that two inputs of one op get, that the user passed, or that
a hook got. If a tensor uses the array, it has a `Share`, whose buffer counts the other sharers.
"""

cimport cython
cimport numpy as cnp

from tensor.autograd.fitting cimport as_array
from tensor.core.storage cimport array_of, is_expanded
from tensor.core.tensor cimport TensorCore, wrap, wrap_share, wrap_share_unowned, wrap_unowned
from tensor.memory.allocator cimport copy as copy_array
from tensor.memory.allocator cimport empty, has_relief, is_worth_pooling
from tensor.memory.buffer cimport Buffer, Share, new_share, root_of
from tensor.tape.nodes cimport Node

import numpy as np

from tensor.core.tensor import wrap_snapshot, wrap_snapshot_unowned

cnp.import_array()

cdef object _add = np.add


@cython.final
@cython.freelist(64)
cdef class PendingGradient:
    """The sum of the gradients of one node so far."""


cdef void clear(PendingGradient pending) noexcept:
    pending.value = None
    pending.share = None
    pending.is_owned = False
    pending.kept = None


cdef int keep(PendingGradient pending) except -1:
    cdef cnp.ndarray array
    if not has_relief() or not pending.is_owned or not isinstance(pending.value, cnp.ndarray):
        return 0
    array = pending.value
    if is_worth_pooling(cnp.PyArray_NBYTES(array)) and _is_whole(array, root_of(array)):
        pending.kept = wrap_unowned(array)
        pending.value = None
    return 0


cdef object value_of(PendingGradient pending):
    return pending.value if pending.kept is None else array_of(pending.kept)


cdef PendingGradient new_pending(Node node, Py_ssize_t users):
    cdef PendingGradient pending = PendingGradient.__new__(PendingGradient)
    pending.node = node
    pending.users = users
    return pending


cdef PendingGradient moved(PendingGradient pending):
    cdef PendingGradient other = new_pending(pending.node, 0)
    other.value = pending.value
    other.share = pending.share
    other.is_owned = pending.is_owned
    clear(pending)
    return other


# In bytes. For smaller arrays, creating a new array is faster than adding in place.
cdef Py_ssize_t _TINY = 1024


cdef int add_array(PendingGradient to, cnp.ndarray new, Share share, bint is_owned) except -1:
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
    buffer = share.buffer  # other nodes with the same array hold a share too
    return buffer.sharers == 1 and buffer.exports == 0 and buffer.writers == 0 and not buffer.is_borrowed


cdef bint _is_whole(cnp.ndarray array, cnp.ndarray root) noexcept:
    """Return whether `array` is `root`, or covers all its memory in C order."""
    if array is root:
        return True
    return cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_NBYTES(array) == cnp.PyArray_NBYTES(root)


cdef TensorCore tensor_of(PendingGradient pending, dict first, bint is_unowned):
    cdef cnp.ndarray array
    cdef TensorCore own
    cdef Share share = pending.share
    if pending.kept is not None:
        return pending.kept
    if isinstance(pending.value, TensorCore):
        return with_history(_wrapped_snapshot(pending.value, is_unowned), pending.value)
    array = pending.value
    if pending.is_owned and _is_whole(array, root_of(array)):
        return wrap_unowned(array) if is_unowned else wrap(array)
    if share is not None and _is_whole(array, share.buffer.root):
        share = new_share(share.buffer, array)
        return wrap_share_unowned(share) if is_unowned else wrap_share(share)
    if id(array) in first:
        return _wrapped_snapshot(first[id(array)], is_unowned)
    array = contiguous_copy(array)
    own = wrap_unowned(array) if is_unowned else wrap(array)
    first[id(pending.value)] = own
    return own


cdef object _wrapped_snapshot(TensorCore x, bint is_unowned):
    return wrap_snapshot_unowned(x) if is_unowned else wrap_snapshot(x)


cdef TensorCore with_history(TensorCore made, TensorCore of):
    made._node = of._node
    return made
