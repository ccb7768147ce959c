"""Backward: walk the tape from the outputs to the leaves, visiting each node once, without recursion.

A pending gradient, the sum of the gradients of a node so far, is an array
(`tensor.autograd.engine`). If backward itself is recorded, it is a tensor
(`tensor.autograd.tensor_gradients`). Derivatives run in kernel contexts (`tensor.kernels.running`). User code
(hooks, functions, checkpoints) runs outside of these contexts, in the caller's scope, without recording.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport uint16_t

from tensor.core.promotion cimport FIRST_OF_OTHERS, is_bfloat16, narrowed, widened
from tensor.core.tensor cimport (
    StorageReference,
    TensorCore,
    array_of,
    begin_write,
    end_write,
    is_empty,
    is_expanded,
    take_snapshot,
    wrap,
    wrap_share,
    wrap_share_unowned,
    wrap_unowned,
)
from tensor.kernels.running cimport enter, leave
from tensor.memory.allocator cimport empty, has_relief, is_worth_pooling
from tensor.memory.allocator cimport copy as copy_array
from tensor.memory.buffer cimport Buffer, Share, new_share, root_of
from tensor.tape.recording cimport Leaf, Node, recorder, set_recording

import numpy as np
from numpy import dtype as _dtype

from scopes._shared.on_demand import ModuleOnDemand as _ModuleOnDemand
from tensor.core.tensor import wrap_snapshot, wrap_snapshot_unowned
from tensor.kernels.namespace import xp, xp_over
from tensor.memory.out_of_memory import OutOfMemoryError, out_of_memory
from tensor.tape.modes import recomputing as _recomputing
from tensor.tape.recording import Deferred
from tensor.tape.recording import when_enabled as _when_enabled

cnp.import_array()


# --- Shapes and dtypes of gradients -------------------------------------------------------------------------
#
# Conversion of gradients to the shape and dtype of their inputs.

cdef object _add = np.add


cdef cnp.ndarray as_array(object result):
    """Return a result of NumPy as an array. NumPy returns a scalar for a result without dimensions."""
    return <cnp.ndarray>result if type(result) is cnp.ndarray else np.asarray(result)


cdef inline bint _has_shape(cnp.ndarray array, tuple shape) except -1:
    cdef int i, n = cnp.PyArray_NDIM(array)
    if len(shape) != n:
        return False
    for i in range(n):
        if cnp.PyArray_DIM(array, i) != <Py_ssize_t>shape[i]:
            return False
    return True


cdef cnp.ndarray fitting(object gradient, Node node):
    """Return the gradient in the shape and dtype of the node's values. Sum over broadcast dimensions."""
    cdef cnp.ndarray g = as_array(gradient)
    cdef cnp.dtype dtype = node.dtype
    cdef tuple shape = node.shape
    if not _has_shape(g, shape):
        g = widened(g)  # round sums of bfloat16 only once
        if (
            len(shape) == 1
            and cnp.PyArray_NDIM(g) == 2
            and cnp.PyArray_DIM(g, 1) == <Py_ssize_t>shape[0]
            and cnp.PyArray_IS_C_CONTIGUOUS(g)
            and cnp.PyArray_TYPE(g) in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE)
        ):
            # A sum by a product, for a bias: 0.8 us instead of 2.2 for (64, 128), 25 not 62 for (64, 8096)
            g = cnp.PyArray_MatrixProduct(_ones(cnp.PyArray_DIM(g, 0), <cnp.dtype>cnp.PyArray_DESCR(g)), g)
        else:
            g = _without_broadcast(g, shape)
    if <cnp.dtype>cnp.PyArray_DESCR(g) is not dtype and <cnp.dtype>cnp.PyArray_DESCR(g) != dtype:
        if cnp.PyArray_ISCOMPLEX(g) and dtype.kind != c"c":
            g = g.real
        if dtype.kind == c"V" and cnp.PyArray_TYPE(g) == cnp.NPY_FLOAT:
            g = narrowed(g, dtype)
        else:
            g = g.astype(dtype)
    return g


cdef cnp.ndarray _without_broadcast(cnp.ndarray g, tuple shape):
    cdef Py_ssize_t added = cnp.PyArray_NDIM(g) - len(shape)
    cdef list stretched = []
    cdef Py_ssize_t i
    if added > 0:
        g = as_array(_add.reduce(g, axis=tuple(range(added))))
    for i in range(len(shape)):
        if shape[i] == 1 and cnp.PyArray_DIM(g, <int>i) != 1:
            stretched.append(i)
    if stretched:
        g = as_array(_add.reduce(g, axis=tuple(stretched), keepdims=True))
    return g if _has_shape(g, shape) else np.broadcast_to(g, shape)


cdef Py_ssize_t _KEPT = 4096

# Factors for such products. Created at import, because memory from a kernel context counts as live.
cdef dict _all_ones = {
    np.dtype(np.float32): np.ones(_KEPT, np.float32), np.dtype(np.float64): np.ones(_KEPT, np.float64)
}


cdef cnp.ndarray _ones(Py_ssize_t n, cnp.dtype dtype):
    cdef cnp.ndarray kept = <cnp.ndarray>_all_ones[dtype]
    return kept[:n] if n <= _KEPT else np.ones(n, dtype)


# --- Pending gradients --------------------------------------------------------------------------------------
#
# Gradients that backward is still summing, and whether other code uses their memory.
#
# Backward may write over a gradient it owns, or return it without a copy. It owns the result that a
# derivative computed for one input. It does not own an array that two inputs of one op get, that the user
# passed, or that a hook got. If a tensor uses the array, it has a `Share`, whose buffer counts the other
# sharers.

@cython.final
@cython.freelist(64)
cdef class PendingGradient:
    """The sum of the gradients of one node so far."""

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


cdef void clear(PendingGradient pending) noexcept:
    pending.value = None
    pending.share = None
    pending.is_owned = False
    pending.kept = None


cdef int keep(PendingGradient pending) except -1:
    """Convert the complete gradient of a leaf to a tensor if a budget may write it to its file."""
    cdef cnp.ndarray array
    if not has_relief() or not pending.is_owned or not isinstance(pending.value, cnp.ndarray):
        return 0
    array = pending.value
    if is_worth_pooling(cnp.PyArray_NBYTES(array)) and _is_whole(array, root_of(array)):
        pending.kept = wrap_unowned(array)
        pending.value = None
    return 0


cdef object value_of(PendingGradient pending):
    """The complete gradient of a leaf: an array, or a tensor if backward is recorded."""
    return pending.value if pending.kept is None else array_of(pending.kept)


cdef PendingGradient new_pending(Node node, Py_ssize_t users):
    cdef PendingGradient pending = PendingGradient.__new__(PendingGradient)
    pending.node = node
    pending.users = users
    return pending


cdef PendingGradient moved(PendingGradient pending):
    """Move the sum to a new PendingGradient, and leave `pending` empty."""
    cdef PendingGradient other = new_pending(pending.node, 0)
    other.value = pending.value
    other.share = pending.share
    other.is_owned = pending.is_owned
    clear(pending)
    return other


# In bytes. For smaller arrays, creating a new array is faster than adding in place.
cdef Py_ssize_t _TINY = 1024


cdef int add_array(PendingGradient to, cnp.ndarray new, Share share, bint is_owned) except -1:
    """Add `new` to the sum, in place if no other code uses the memory of one of the two."""
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
    """Return a copy in C order."""
    cdef cnp.ndarray out
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return copy_array(array)
    out = empty((<object>array).shape, <cnp.dtype>cnp.PyArray_DESCR(array))
    cnp.PyArray_CopyInto(out, array)
    return out


cdef cnp.ndarray compact_copy(cnp.ndarray array):
    """Return a copy, which is expanded if the array is: copy each memory location once."""
    cdef list once = []
    if not is_expanded(array):
        return contiguous_copy(array)
    for stride in (<object>array).strides:
        once.append(slice(None) if stride else slice(0, 1))
    return np.broadcast_to(contiguous_copy(array[tuple(once)]), (<object>array).shape)


cdef bint may_be_written(cnp.ndarray array, Share share, bint is_owned) noexcept:
    """Whether no other code uses the memory of a pending gradient now."""
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
    """Return the gradient as a tensor with its own memory.

    If several nodes got the same array, `first` stores the tensor of the first node, and the others share
    its memory as ``clone()`` does.
    """
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


# --- Gradients of leaves ------------------------------------------------------------------------------------
#
# Accumulation of the gradients of leaves: all at once, or none if an error occurs.
#
# The steps that may fail or call Python run first, for all leaves. Then one step changes all leaves,
# without a lock: under the GIL no other thread runs meanwhile. If another thread has changed a leaf since
# its preparation, the preparation runs again.

@cython.final
cdef class _Target:
    """A leaf to accumulate a gradient into."""

    cdef PendingGradient pending
    # A tensor, or the handle that its memory was moved to.
    cdef StorageReference x
    # Its gradient so far: a tensor, which may be empty, or None.
    cdef object before
    # Either the tensor that replaces `before`, and whether it is the sum of `before` and the gradient;
    cdef TensorCore made
    cdef bint is_sum
    # or the array to add to `before` in place, and the buffer to write to.
    cdef cnp.ndarray added
    cdef Buffer buffer

    cdef void end(self) noexcept:
        """End the write, if one was started."""
        cdef Buffer buffer = self.buffer
        self.buffer = None
        if buffer is not None:
            end_write(buffer)

    cdef bint is_gone(self) noexcept:
        """Return whether the tensor is no longer a leaf, so that it gets no gradient."""
        return self.x._node is not self.pending.node

    cdef bint is_as_prepared(self) noexcept:
        """Return whether nothing has changed since the preparation."""
        if self.is_gone():
            return True
        if self.x.gradient is not self.before:
            return False
        if self.buffer is None:
            return self.made is not None
        return (
            (<TensorCore>self.before).stored is not None
            and (<TensorCore>self.before).buffer == <PyObject*>self.buffer
            and self.buffer.sharers == 1
        )


cdef int accumulate(list found) except -1:
    """Add gradients to those of their leaves: all of them, or none if an error occurs."""
    cdef list targets = []
    cdef PendingGradient pending
    cdef _Target target
    cdef dict first = {}
    for pending in found:
        x = (<Leaf>pending.node).home()
        if x is not None:  # else the leaf was freed
            target = _Target.__new__(_Target)
            target.pending = pending
            target.x = x
            targets.append(target)
    while True:
        try:
            for target in targets:
                _prepare(target, first)
            if _commit(targets):
                return 0
        finally:
            for target in targets:
                target.end()


cdef int _prepare(_Target target, dict first) except -1:
    """Run the steps that may fail for the gradient of one leaf."""
    cdef StorageReference x = target.x
    cdef object old = x.gradient
    cdef TensorCore before = None
    cdef object value
    target.before = old
    if x._node is not target.pending.node:
        return 0
    if old is not None and not is_empty(<TensorCore?>old):
        before = <TensorCore>old
    if before is None:
        if target.made is None or target.is_sum:
            target.made = tensor_of(target.pending, first, True)
            target.is_sum = False
        return 0
    value = value_of(target.pending)
    if isinstance(value, TensorCore) or before._node is not None or not _takes(array_of(before), value):
        target.made = _sum(before, value)
        target.is_sum = True
        return 0
    target.buffer = begin_write(before)
    target.added = value
    return 0


cdef TensorCore _sum(TensorCore before, object value):
    """Return the sum as a new tensor, for gradients with a history or read-only memory."""
    cdef Share share
    if isinstance(value, TensorCore):
        total = before + value
        return with_history(wrap_snapshot_unowned(total), total)
    share = take_snapshot(before)
    return wrap_unowned(as_array(_add(share.array, value)))


cdef bint _commit(list targets):
    """Set the gradients of all leaves. Return False and set none if a leaf changed since `_prepare`."""
    cdef _Target target
    for target in targets:
        if not target.is_as_prepared():
            return False
    # From here on no step fails or runs Python. `before` keeps the replaced gradients alive.
    for target in targets:
        if target.is_gone():
            continue
        if target.buffer is None:
            target.x.gradient = target.made
        else:
            target.buffer.epoch += 1
            _add_in_place((<TensorCore>target.before).stored, target.added)
    return True


cdef bint _takes(cnp.ndarray to, cnp.ndarray by):
    """Return whether `by` can be added to `to` in place."""
    return (
        not is_expanded(to)
        and cnp.PyArray_SAMESHAPE(to, by)
        and cnp.PyArray_TYPE(to) == cnp.PyArray_TYPE(by)
        and cnp.PyArray_ISNOTSWAPPED(to)
    )


def clear_gradients(tensors, bint set_to_none) -> None:
    """Dispose the gradients of `tensors`, or fill them with zeros.

    Raises
    ------
    TensorDisposedError
        If one of `tensors` is disposed. The gradients of the tensors before it are cleared.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,), requires_grad=True)
    >>> x.sum().backward()
    >>> clear_gradients([x], set_to_none=True)
    >>> x.grad is None
    True
    """
    cdef TensorCore x, gradient
    cdef Buffer buffer
    for each in tensors:
        x = <TensorCore?>each
        if is_empty(x):
            x._raise_disposed()
        if type(x._node) is not Leaf or x.gradient is None:
            continue
        gradient = <TensorCore?>x.gradient
        if set_to_none or is_empty(gradient):
            x.gradient = None
            if not is_empty(gradient):
                gradient.ending = "it was a gradient, and zero_grad() ended it"
            gradient.dispose()
            continue
        gradient._node = None
        buffer = begin_write(gradient)
        try:
            gradient.stored.fill(0)
        finally:
            end_write(buffer)


cdef extern from *:
    """
    #include <cstdint>
    #include <cstring>

    /* 16-bit floats, which C++17 does not have. */
    static inline float float_of_half(uint16_t half)
    {
        uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, digits = half & 0x3ff;
        uint32_t bits = sign | (exponent + 112) << 23 | digits << 13;
        float value;
        if (exponent == 0) {
            value = (float)digits * (1.0f / (1 << 24));
            return sign ? -value : value;
        }
        if (exponent == 31)
            bits = sign | 0x7f800000 | digits << 13;
        std::memcpy(&value, &bits, 4);
        return value;
    }

    /* Round to nearest, ties to even. */
    static inline uint16_t half_of_float(float value)
    {
        uint32_t bits, sign;
        std::memcpy(&bits, &value, 4);
        sign = (bits >> 16) & 0x8000;
        bits &= 0x7fffffff;
        if (bits > 0x7f800000)
            return (uint16_t)(sign | 0x7e00);
        if (bits >= 0x477ff000)
            return (uint16_t)(sign | 0x7c00);
        if (bits < 0x38800000) {
            /* Adding 0.5 aligns the last bit of the float with that of a subnormal half. */
            std::memcpy(&value, &bits, 4);
            value += 0.5f;
            std::memcpy(&bits, &value, 4);
            return (uint16_t)(sign | (bits - 0x3f000000));
        }
        return (uint16_t)(sign | ((bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13));
    }

    static inline void add_half(uint16_t *to, uint16_t by)
    {
        *to = half_of_float(float_of_half(*to) + float_of_half(by));
    }

    /* A bfloat16 is the upper half of a float. */
    static inline float float_of_bfloat16(uint16_t upper)
    {
        uint32_t bits = (uint32_t)upper << 16;
        float value;
        std::memcpy(&value, &bits, 4);
        return value;
    }

    static inline void add_bfloat16(uint16_t *to, uint16_t by)
    {
        float sum = float_of_bfloat16(*to) + float_of_bfloat16(by);
        uint32_t bits;
        std::memcpy(&bits, &sum, 4);
        if (sum != sum)
            *to = (uint16_t)(bits >> 16 | 0x40);
        else
            *to = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
    """
    void add_half(uint16_t* to, uint16_t by) noexcept
    void add_bfloat16(uint16_t* to, uint16_t by) noexcept


cdef enum _Kind:
    _HALF
    _BFLOAT
    _SINGLE
    _DOUBLE


cdef _Kind _kind_of(cnp.ndarray array) noexcept:
    """Return the element type. A complex number counts as two elements."""
    cdef int number = cnp.PyArray_TYPE(array)
    if number == cnp.NPY_FLOAT or number == cnp.NPY_CFLOAT:
        return _SINGLE
    if number == cnp.NPY_DOUBLE or number == cnp.NPY_CDOUBLE:
        return _DOUBLE
    return _BFLOAT if number >= FIRST_OF_OTHERS else _HALF


cdef void _add_in_place(cnp.ndarray to, cnp.ndarray by) noexcept:
    """Add `by` to `to`, which has the same shape and dtype.

    Keep the GIL: NumPy releases it for large arrays, and additions by other threads would be lost.
    """
    cdef cnp.npy_intp one = cnp.PyArray_SIZE(to) * (2 if cnp.PyArray_ISCOMPLEX(to) else 1)
    cdef cnp.npy_intp step
    cdef _Kind kind = _kind_of(to)
    if (cnp.PyArray_IS_C_CONTIGUOUS(to) and cnp.PyArray_IS_C_CONTIGUOUS(by)) or (
        cnp.PyArray_IS_F_CONTIGUOUS(to) and cnp.PyArray_IS_F_CONTIGUOUS(by)
    ):
        step = cnp.PyArray_ITEMSIZE(to) // (2 if cnp.PyArray_ISCOMPLEX(to) else 1)
        _add_row(cnp.PyArray_BYTES(to), cnp.PyArray_BYTES(by), one, step, step, kind)
        return
    _add_rows(
        cnp.PyArray_BYTES(to), cnp.PyArray_BYTES(by), cnp.PyArray_NDIM(to), cnp.PyArray_DIMS(to),
        cnp.PyArray_STRIDES(to), cnp.PyArray_STRIDES(by), kind, cnp.PyArray_ISCOMPLEX(to),
    )


cdef void _add_rows(
    char* to, char* by, int ndim, cnp.npy_intp* sizes, cnp.npy_intp* to_steps, cnp.npy_intp* by_steps,
    _Kind kind,
    bint is_complex,
) noexcept:
    cdef cnp.npy_intp _, step
    if ndim == 0 or (ndim == 1 and is_complex):
        step = 4 if kind == _SINGLE else 8 if kind == _DOUBLE else 2
        for _ in range(1 if ndim == 0 else sizes[0]):
            _add_row(to, by, 2 if is_complex else 1, step, step, kind)
            if ndim == 1:
                to += to_steps[0]
                by += by_steps[0]
        return
    if ndim == 1:
        _add_row(to, by, sizes[0], to_steps[0], by_steps[0], kind)
        return
    for _ in range(sizes[0]):
        _add_rows(to, by, ndim - 1, sizes + 1, to_steps + 1, by_steps + 1, kind, is_complex)
        to += to_steps[0]
        by += by_steps[0]


cdef void _add_row(
    char* to, char* by, cnp.npy_intp count, cnp.npy_intp to_step, cnp.npy_intp by_step, _Kind kind
) noexcept:
    cdef cnp.npy_intp k
    if kind == _SINGLE:
        if to_step == 4 and by_step == 4:
            for k in range(count):
                (<float*>to)[k] += (<float*>by)[k]
            return
        for k in range(count):
            (<float*>(to + k * to_step))[0] += (<float*>(by + k * by_step))[0]
    elif kind == _DOUBLE:
        if to_step == 8 and by_step == 8:
            for k in range(count):
                (<double*>to)[k] += (<double*>by)[k]
            return
        for k in range(count):
            (<double*>(to + k * to_step))[0] += (<double*>(by + k * by_step))[0]
    elif kind == _BFLOAT:
        for k in range(count):
            add_bfloat16(<uint16_t*>(to + k * to_step), (<uint16_t*>(by + k * by_step))[0])
    else:
        for k in range(count):
            add_half(<uint16_t*>(to + k * to_step), (<uint16_t*>(by + k * by_step))[0])


cdef object _detection = _ModuleOnDemand("tensor.autograd.anomalies")

# Divides a node for a budget, see `divide_by`.
cdef object _divided = None


def divide_by(function):
    """Let ``function(node)`` divide nodes while a budget is open.

    It returns None, or nodes that together do what `node` does: each computes the gradient of one input, and
    has only the saved values for it. So a budget can evict the other values in the meantime.
    """
    global _divided
    _divided = function


cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject** arguments, size_t count, PyObject* names)
    # Returns the items of a list or tuple.
    PyObject** PySequence_Fast_ITEMS(object items) noexcept

cdef enum:
    # The most arguments after `space` and `g` that a derivative has, except for an einsum of many operands.
    _MAX_ARGUMENTS = 13

_SECOND_BACKWARD = (
    "backward through a graph whose saved values are already freed: backward frees them after use. Call the "
    "first backward with retain_graph=True, or compute the output again"
)

_CONSTANTS = frozenset({bool, int, float, complex, str, slice, type(None), type(Ellipsis)})


def restore(Node node not None) -> Deferred | None:
    """Compute or read the saved values of `node` if necessary. Return the argument for `put_back`."""
    node.is_in_use = True
    packed = None
    saved = node.saved
    try:
        while isinstance(saved, Deferred):  # a checkpoint may be inside another one
            saved.restore(node)
            if saved.is_put_back:
                packed = saved
            saved = node.saved
    except BaseException:
        node.is_in_use = False
        raise
    if saved is None:
        raise RuntimeError(f"{node.name()}: {_SECOND_BACKWARD}")
    return packed


def put_back(Node node not None, packed) -> None:
    """After the use of saved values, let the hooks that restored them keep them again."""
    if packed is not None and node.saved is not None:
        node.saved = packed
        node.holds = ()


cpdef bint holds_memory(object saved) except -1:
    """Return whether a saved value is more than a constant of the op, such as a number, a shape or an index.

    Backward frees such values. It keeps those of other nodes: a second backward needs no ``retain_graph``.
    """
    for value in saved:
        if isinstance(value, tuple):
            if holds_memory(value):
                return True
        elif type(value) not in _CONSTANTS and not isinstance(value, _dtype):
            return True
    return False


cdef class Backward:
    """One backward pass. Its results have no history; those of `RecordedBackward` do.

    Parameters
    ----------
    retain_graph
        Keep the saved values of nodes for another backward pass.
    only
        The nodes whose gradients ``gradients()`` returns. None: accumulate gradients in all leaves.
    is_recorded
        Record backward itself, with tensors as gradients. For subclasses.
    into_leaves
        The nodes in `only` are leaves: accumulate their gradients.
    """

    cdef readonly bint is_recorded
    cdef readonly bint retain_graph
    # The anomaly detector, or None.
    cdef readonly object anomalies
    cdef object only
    # Whether gradients are accumulated in leaves.
    cdef bint into_leaves
    # The nodes from which one of `only` can be reached.
    cdef set ancestors
    # The pending gradient of each reachable node.
    cdef dict pending
    # The gradients of leaves, or of `only`, in the order of their completion.
    cdef list found
    # The open kernel context, or None.
    cdef object context
    cdef bint is_pooled
    # While a node with hooks is evaluated: the gradient of each of its inputs, which the hooks get first.
    cdef list received
    # Whether user code is running. Its memory errors are not converted to OutOfMemoryError.
    cdef bint is_outside

    def __init__(self, bint retain_graph, only=None, bint is_recorded=False, bint into_leaves=False):
        self.is_recorded = is_recorded
        # A backward pass in a checkpoint's second run must not free the values that this run saves.
        self.retain_graph = retain_graph or _recomputing.get() > 0
        self.anomalies = None if _when_enabled.get() is True else _detection.anomalies()
        self.only = only
        self.into_leaves = into_leaves or only is None
        self.pending = {}
        self.found = []

    def run(self, list roots not None) -> None:
        """Walk from `roots`: triples of a node, its gradient (tensor or array), and the `Share` of an array.

        After an error, the ``grad`` of each leaf without a post-accumulate hook is unchanged.
        """
        before = recorder() if self.is_recorded else None
        try:
            if self.is_recorded:
                set_recording(_when_enabled.get())
            self._walk(roots)
            if self.into_leaves:
                self.leave_kernels()
                accumulate(self.found)
        except OutOfMemoryError:
            raise
        except MemoryError:
            if self.is_outside:
                raise
            raise out_of_memory() from None
        finally:
            self.leave_kernels()
            self.pending = {}
            if before is not None:
                set_recording(before)

    def gradients(self) -> dict:
        """Return the gradient of each reached node of `only`, as a tensor with its own memory."""
        cdef PendingGradient pending
        made = {}
        first = {}
        for pending in self.found:
            made[pending.node] = tensor_of(pending, first, False)
        return made

    # --- The walk ------------------------------------------------------------------------------------------

    cdef int _walk(self, list roots) except -1:
        cdef list ready = []
        cdef PendingGradient pending, next_pending
        cdef Node node, next_node
        cdef PyObject* known
        cdef bint is_passed_on
        self._count_users(roots)
        for node, value, share in roots:
            pending = <PendingGradient>self.pending[node]
            self._accumulate(pending, value, share, False)
            if pending.users == 0 and pending not in ready:
                ready.append(pending)
        if self.only is not None:
            self.ancestors = self._ancestors_of(self.only)
        while ready:
            pending = <PendingGradient>ready.pop()
            node = pending.node
            if pending.value is not None:
                if node.hooks is not None:
                    self._run_hooks(node, pending)
                if self.only is None:
                    is_passed_on = not isinstance(node, Leaf)
                    if not is_passed_on:
                        self._finish_leaf(node, pending)
                else:
                    if node in self.only:
                        if self.into_leaves:
                            self._finish_leaf(node, pending)
                        else:
                            self._capture(pending)
                    is_passed_on = node in self.ancestors
                if is_passed_on:
                    self._evaluate(node, pending)
                    clear(pending)  # the next gradient may use its memory
            elif node.hooks is not None and (self.only is None or node in self.ancestors):
                self._run_node_hooks(node, pending)
            for x in node.next:
                if x is None:
                    continue
                next_node = <Node>x
                known = PyDict_GetItem(self.pending, next_node)
                next_pending = <PendingGradient>known
                next_pending.users -= 1
                if next_pending.users > 0:
                    continue
                if self.only is None and type(next_node) is Leaf and next_node.hooks is None:
                    # A shortcut for plain leaves: a small network has as many leaves as ops.
                    if next_pending.value is not None or next_pending.kept is not None:
                        self._complete(next_pending)
                else:
                    ready.append(next_pending)
        return 0

    cdef int _finish_leaf(self, Node node, PendingGradient pending) except -1:
        if node.hooks is not None and (node.hooks.after or node.hooks.are_on_node):
            return self._accumulate_now(node, moved(pending))
        return self._complete(pending)

    cdef int _complete(self, PendingGradient pending) except -1:
        """Store the gradient of a leaf until the gradients of all leaves are complete."""
        if has_relief() and not self.is_recorded:
            self.leave_kernels()
            keep(pending)
        self.found.append(pending)
        return 0

    cdef int _count_users(self, list roots) except -1:
        """Collect the reachable nodes, and count the edges to each."""
        cdef list stack = []
        cdef PyObject* known
        cdef Node node, after
        for node, _, _ in roots:
            if node not in self.pending:
                self.pending[node] = new_pending(node, 0)
                stack.append(node)
        while stack:
            node = <Node>stack.pop()
            for x in node.next:
                if x is None:
                    continue
                after = <Node>x
                known = PyDict_GetItem(self.pending, after)
                if known != NULL:
                    (<PendingGradient>known).users += 1
                    continue
                self.pending[after] = new_pending(after, 1)
                if after.next:
                    stack.append(after)
        return 0

    cdef set _ancestors_of(self, targets):
        """Return the nodes from which a target can be reached."""
        cdef Node node
        users = {}
        for node in self.pending:
            for after in node.next:
                if after is not None:
                    users.setdefault(after, []).append(node)
        ancestors = set()
        stack = list(targets)
        while stack:
            for user in users.get(stack.pop(), ()):
                if user not in ancestors:
                    ancestors.add(user)
                    stack.append(user)
        return ancestors

    cdef int _capture(self, PendingGradient pending) except -1:
        """Keep the gradient for the user, so that later steps do not write over it."""
        cdef PendingGradient kept = new_pending(pending.node, 0)
        kept.value = pending.value
        if pending.share is not None:
            kept.share = new_share(pending.share.buffer, pending.value)
        kept.is_owned = pending.is_owned
        pending.is_owned = False
        self.found.append(kept)
        return 0

    cdef int _evaluate(self, Node node, PendingGradient pending) except -1:
        try:
            if node.hooks is not None and node.hooks.are_on_node:
                self._run_node_hooks(node, pending)
            elif type(node) is not Node:
                self._outside(node.step, pending, self)  # a node of a user's function
            elif has_relief() and _divided is not None and self._may_divide(node, pending):
                self._step_divided(node, pending)
            else:
                self.step(node, pending)
        except Exception as error:
            if self.anomalies is not None:
                site = _detection.recorded_at(node)
                if site not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
                    error.add_note(site)
            raise
        return 0

    cdef bint _may_divide(self, Node node, PendingGradient pending):
        """Return whether the gradients of the inputs of `node` may be computed by nodes of their own."""
        if self.is_recorded or self.retain_graph or self.only is not None or self.anomalies is not None:
            return False
        return len(node.plan.steps) > 1 and node.plan.together is None and not is_bfloat16(pending.value)

    cdef int _step_divided(self, Node node, PendingGradient pending) except -1:
        """Compute the gradients of the inputs, each by a node of its own if the budget divides this one."""
        cdef Node part
        cdef PendingGradient leaf
        cdef PyObject* known
        cdef Share guard
        cdef bint is_owned
        self.leave_kernels()
        parts = _divided(node)
        if parts is None:
            self.step(node, pending)
            return 0
        # Only the last part may write over the gradient of the output, unless an earlier part has passed that
        # gradient on.
        guard = None if pending.share is None else new_share(pending.share.buffer, pending.value)
        is_owned = pending.is_owned
        pending.is_owned = False
        for part in parts:
            if part is parts[len(parts) - 1] and not self._is_passed_on(pending, node.next):
                guard = None
                pending.is_owned = is_owned
            self.step(part, pending)
            for x in part.next:
                if type(x) is not Leaf or (<Leaf>x).hooks is not None:
                    continue
                known = PyDict_GetItem(self.pending, x)
                leaf = <PendingGradient>known
                if leaf.users == 1 and leaf.value is not None:
                    self.leave_kernels()
                    keep(leaf)  # it is complete, and the budget may write it to the file
        return 0

    cdef bint _is_passed_on(self, PendingGradient pending, tuple nexts) except -1:
        """Return whether the gradient of an input in `nexts` has the memory of `pending`."""
        cdef cnp.ndarray root = root_of(<cnp.ndarray?>pending.value)
        cdef PyObject* known
        for x in nexts:
            if x is None:
                continue
            known = PyDict_GetItem(self.pending, x)
            value = (<PendingGradient>known).value
            if isinstance(value, cnp.ndarray) and root_of(<cnp.ndarray>value) is root:
                return True
        return False

    # --- Kernel contexts and user code ----------------------------------------------------------------------

    cdef int enter_kernels(self, bint pooled) except -1:
        """Enter a kernel context; `pooled` if the kernel may create large arrays."""
        if self.context is not None:
            if self.is_pooled == pooled:
                return 0
            self.leave_kernels()
        self.context = enter(pooled)
        self.is_pooled = pooled
        return 0

    cdef int leave_kernels(self) except -1:
        context = self.context
        if context is not None:
            self.context = None
            leave(context, self.is_pooled)
        return 0

    cdef object _outside(self, function, one, two):
        """Return ``function(one, two)`` of user code. Record its ops only if backward is recorded."""
        self.leave_kernels()
        before = recorder()
        is_switched = not self.is_recorded and before is not False
        if is_switched:
            set_recording(False)
        self.is_outside = True
        try:
            result = function(one, two)
            self.is_outside = False
            return result
        finally:
            if is_switched:
                set_recording(before)

    # --- One node -------------------------------------------------------------------------------------------

    cpdef object step(self, Node node, PendingGradient pending):
        """Compute the gradients of the op's inputs from the gradient of its output. Free the saved values."""
        cdef PyObject* arguments[_MAX_ARGUMENTS + 3]
        cdef cnp.ndarray g = pending.value
        cdef cnp.ndarray root
        cdef tuple steps, places
        cdef tuple nexts = node.next
        # A tuple; or a list, to free each value as soon as no later step needs it.
        cdef object saved
        cdef list holds = None
        cdef PyObject** values
        cdef Node after
        cdef Py_ssize_t count, i, left
        cdef bint is_free, is_sole, is_large
        if type(node.saved) is not tuple:
            return self._restore_and_step(node, pending)
        node.is_in_use = True
        saved = node.saved
        if is_bfloat16(g):
            # Compute in float32, and round each gradient once.
            g = pending.value = widened(g)
            pending.share = None
            pending.is_owned = True
            saved = _widened(saved)
        root = root_of(g)
        steps = node.plan.steps  # read after the saved values: restoring a checkpoint sets the plan
        left = len(steps)
        # Whether the last step may write over `g`: not if an earlier step has passed `g` itself on.
        is_free = may_be_written(g, pending.share, pending.is_owned)
        is_large = _is_large(g, <tuple?>saved, nexts)
        self.enter_kernels(is_large)
        if node.plan.together is not None:
            self._evaluate_together(node, g, pending, root, <tuple>saved, is_free)
            steps = ()
        elif is_large and left > 1 and not self.retain_graph and holds_memory(saved):
            holds = list(node.holds) if len(node.holds) == len(saved) else [None] * len(saved)
            saved = list(saved)
            node.saved = None
            node.holds = ()
        values = PySequence_Fast_ITEMS(saved)
        for number, function, places in steps:
            left -= 1
            i = number
            if nexts[i] is None:
                continue
            after = <Node>nexts[i]
            shape = after.shape
            is_sole = is_free and left == 0
            space = xp_over if is_sole else xp
            arguments[1] = <PyObject*>space
            arguments[2] = <PyObject*>g
            count = 2
            if len(places) <= _MAX_ARGUMENTS:
                for place in places:
                    count += 1
                    if place >= 0:
                        arguments[count] = values[<Py_ssize_t>place]
                    else:
                        arguments[count] = <PyObject*>number if place == -1 else <PyObject*>shape
                # The callee may use the slot before the first argument (vectorcall protocol).
                found = PyObject_Vectorcall(
                    function, arguments + 1, <size_t>count | (<size_t>1 << (8 * sizeof(size_t) - 1)), NULL
                )
            else:
                many = [space, g]
                for place in places:
                    many.append(saved[<Py_ssize_t>place] if place >= 0 else number if place == -1 else shape)
                found = function(*many)
            if found is not None:
                found = fitting(found, after)
                is_free = is_free and root_of(<cnp.ndarray>found) is not root
                self._add_gradient(after, <cnp.ndarray>found, pending, root, is_sole, saved, node, i)
                found = None
            if holds is not None:
                for place in <tuple>node.plan.done[len(steps) - 1 - left]:
                    (<list>saved)[<Py_ssize_t>place] = holds[<Py_ssize_t>place] = None
        node.is_in_use = False
        if not self.retain_graph:
            node.recipe = None
            if holds_memory(saved):
                node.saved = None
                node.holds = ()

    cdef object _restore_and_step(self, Node node, PendingGradient pending):
        packed = self._outside(_restore, node, None)
        try:
            self.step(node, pending)
        finally:
            put_back(node, packed)

    cdef int _evaluate_together(
        self, Node node, cnp.ndarray g, PendingGradient pending, cnp.ndarray root, tuple saved, bint is_free
    ) except -1:
        """Compute the gradients of all inputs with one function, and add each to its node."""
        cdef Py_ssize_t i
        cdef Node after
        cdef list given
        cdef bint is_over = False
        function, wanted, places = node.plan.together
        given = [g, wanted]
        for place in <tuple>places:
            if place < 0:
                is_over = is_free  # the function writes at most one gradient over `g`
                given.append(is_free)
            else:
                given.append(saved[<Py_ssize_t>place])
        found = function(*given)
        for i in range(len(node.next)):
            if node.next[i] is not None and found[i] is not None:
                after = <Node>node.next[i]
                self._add_gradient(after, fitting(found[i], after), pending, root, is_over, saved, node, i)
        return 0

    cdef int _add_gradient(
        self, Node after, cnp.ndarray out, PendingGradient of, cnp.ndarray root, bint is_sole, object saved,
        Node node,
        Py_ssize_t i,
    ) except -1:
        """Add `out` to the gradient of `after`. `node` computed it from its own gradient `of` with `root`."""
        cdef cnp.ndarray own = root_of(out)
        cdef Share share = None
        cdef bint is_owned = _is_writable(out)
        if own is root:
            is_owned = is_owned and is_sole and of.is_owned
            share = None if of.share is None else new_share(of.share.buffer, out)
        else:
            for value in saved:
                if isinstance(value, cnp.ndarray) and root_of(<cnp.ndarray>value) is own:
                    # Other code may write to the saved value after the node releases it.
                    out = contiguous_copy(out)
                    is_owned = True
                    break
        if self.anomalies is not None:
            self.anomalies.check(out, node, i)
        self._accumulate(self._sum_for(after, i), out, share, is_owned)
        return 0

    cdef PendingGradient _sum_for(self, Node after, Py_ssize_t i):
        """Return the sum to which the gradient of input `i` of a node is added."""
        return <PendingGradient>(self.pending[after] if self.received is None else self.received[i])

    cdef int _accumulate(self, PendingGradient to, object g, Share share, bint is_owned) except -1:
        """Add `g` to the sum, in place if no other code uses its memory."""
        cdef cnp.ndarray new
        if to.value is None:
            to.value = g
            to.share = share
            to.is_owned = is_owned
            return 0
        if self.is_recorded:
            to.value = to.value + g
            return 0
        new = g
        self.enter_kernels(is_worth_pooling(cnp.PyArray_NBYTES(new)))
        add_array(to, new, share, is_owned)
        return 0

    def add(self, Node to not None, TensorCore x not None, Node node not None, Py_ssize_t i) -> None:
        """Add the values of `x`, the gradient of input `i` of `node`, to the sum of `to`."""
        cdef cnp.ndarray out
        cdef Share share
        if self.is_recorded:
            if self.anomalies is not None:
                self.anomalies.check(x, node, i)
            self._accumulate(self._sum_for(to, i), x, None, False)
            return
        share = take_snapshot(x)
        self.enter_kernels(is_worth_pooling(cnp.PyArray_NBYTES(share.array)))
        try:
            out = fitting(share.array, to)
            if self.anomalies is not None:
                self.anomalies.check(out, node, i)
            if root_of(out) is root_of(share.array):
                self._accumulate(self._sum_for(to, i), out, share, False)
            else:
                self._accumulate(self._sum_for(to, i), out, None, _is_writable(out))
        except MemoryError:
            self.is_outside = False
            raise
        finally:
            self.leave_kernels()  # user code called this

    def put(
        self, Node call not None, Py_ssize_t place, Py_ssize_t count, PendingGradient pending not None
    ) -> None:
        """Set or add to the gradient of output number `place` (of `count`) of `call`."""
        cdef PendingGradient to = <PendingGradient>self.pending[call]
        cdef PendingGradient before
        if to.value is None:
            to.value = [None] * count
        before = to.value[place]
        if before is None:
            to.value[place] = moved(pending)
            return
        # Two threads that read an output at the same time may have created two nodes for it.
        self._accumulate(before, pending.value, pending.share, pending.is_owned)
        self.leave_kernels()

    def as_tensor(self, PendingGradient pending not None, bint compact=False) -> TensorCore:
        """Return the sum as a tensor for user code, and leave `pending` empty.

        With `compact`, an expanded array is not copied in full. Then the tensor can't be written to.
        """
        cdef PendingGradient own = moved(pending)
        cdef cnp.ndarray array
        if self.is_recorded:
            # Copy-on-write, because the user may write to the tensor, and other nodes use it.
            return with_history(wrap_snapshot(own.value), own.value)
        array = own.value
        if own.is_owned:
            return wrap(array)
        if own.share is not None and not is_expanded(array):
            return wrap_share(new_share(own.share.buffer, array))
        return wrap(compact_copy(array) if compact else contiguous_copy(array))

    cdef int _run_hooks(self, Node node, PendingGradient pending) except -1:
        """Replace the gradient with the result of the hooks of the tensor of `node`."""
        if node.hooks.before or node.hooks.keeper is not None:
            self.leave_kernels()
            self._replace(
                pending, self._outside(node.hooks.pass_through, node, self.as_tensor(pending))
            )
        return 0

    cdef int _replace(self, PendingGradient pending, given) except -1:
        """Set the gradient to the tensor `given`, which other code may use too, or to None."""
        cdef Share share
        clear(pending)
        if self.is_recorded or given is None:
            pending.value = given
            return 0
        share = take_snapshot(<TensorCore?>given)
        pending.value = share.array
        pending.share = share
        return 0

    cdef int _run_node_hooks(self, Node node, PendingGradient pending) except -1:
        """Evaluate `node` between its prehooks and its hooks, and pass on the gradients that these return."""
        cdef list received = []
        cdef list tensors = []
        cdef PendingGradient one
        places = node.input_places()
        outputs = self._run_prehooks(node, pending)
        for x in node.next:
            received.append(None if x is None else new_pending(x, 0))
        if pending.value is not None:
            self.received = received
            try:
                if type(node) is not Node:
                    self._outside(node.step, pending, self)
                else:
                    self.step(node, pending)
            finally:
                self.received = None
            self.leave_kernels()
        for place in places:
            one = received[place]
            tensors.append(None if one is None or one.value is None else self.as_tensor(one))
        given = self._outside(node.hooks.after_node, tuple(tensors), outputs)
        for place, x in zip(places, given):
            if x is not None:
                one = received[place]
                self._replace(one, x)
                self._accumulate(<PendingGradient>self.pending[one.node], one.value, one.share, False)
        return 0

    cdef tuple _run_prehooks(self, Node node, PendingGradient pending):
        """Replace the gradients of the outputs with the result of the prehooks. Return them as tensors."""
        cdef list sums = pending.value if isinstance(pending.value, list) else [pending]
        cdef list tensors = []
        cdef PendingGradient one
        if pending.value is None:
            sums = [None] * node.count_outputs()
        self.leave_kernels()
        for one in sums:
            tensors.append(None if one is None else self.as_tensor(one))
        outputs = self._outside(_call_prehooks, node, tuple(tensors))
        for i, x in enumerate(<tuple>outputs):
            one = sums[i]
            if one is not None:
                self._replace(one, x)
                if x is None and one is not pending:
                    sums[i] = None
        return outputs

    # --- Leaves ---------------------------------------------------------------------------------------------

    cdef int _accumulate_now(self, Node node, PendingGradient pending) except -1:
        """Accumulate the gradient of one leaf now, and call its post-accumulate hooks."""
        hooks = node.hooks
        self.leave_kernels()
        outputs = self._run_prehooks(node, pending) if hooks.are_on_node else ()
        if pending.value is not None:
            accumulate([pending])
            clear(pending)
            x = node.tensor()
            if isinstance(x, TensorCore):
                self._outside(_call_each, list(hooks.after.values()), x)
        self._outside(hooks.after_node, (), outputs)
        return 0


cdef tuple _widened(tuple saved):
    wide = []
    for value in saved or ():
        wide.append(widened(value))
    return tuple(wide)


def _restore(node, _):
    return restore(node)


def _call_prehooks(node, outputs):
    return node.hooks.before_node(outputs)


def _call_each(functions, x):
    for function in functions:
        function(x)


cdef inline bint _is_writable(cnp.ndarray array) noexcept:
    return cnp.PyArray_ISWRITEABLE(array) and not is_expanded(array)


cdef bint _is_large(cnp.ndarray g, tuple saved, tuple nexts) except -1:
    """Return whether results may be large enough for the pool."""
    cdef Py_ssize_t size
    cdef Node after
    if is_worth_pooling(cnp.PyArray_NBYTES(g)):
        return True
    for x in saved:
        if isinstance(x, cnp.ndarray) and is_worth_pooling(cnp.PyArray_NBYTES(<cnp.ndarray>x)):
            return True
    for y in nexts:
        if y is not None:
            after = <Node>y
            size = cnp.PyArray_ITEMSIZE(g)
            for n in <tuple>after.shape or ():
                size *= <Py_ssize_t>n
            if is_worth_pooling(size):
                return True
    return False
