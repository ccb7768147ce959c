"""Accumulation of the gradients of leaves: all at once, or none if an error occurs.

The steps that may fail or call Python run first, for all leaves. Then one step changes all leaves, without a
lock: under the GIL no other thread runs meanwhile. If another thread has changed a leaf since its
preparation, the preparation runs again.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport uint16_t

from tensor.autograd.pending_gradients cimport PendingGradient, tensor_of, value_of, with_history
from tensor.autograd.fitting cimport as_array
from tensor.core.bfloat16 cimport FIRST_OF_OTHERS
from tensor.core.storage cimport (
    StorageReference,
    array_of,
    begin_write,
    end_write,
    is_empty,
    is_expanded,
    take_snapshot,
)
from tensor.core.tensor cimport TensorCore, wrap_unowned
from tensor.memory.buffer cimport Buffer, Share
from tensor.tape.nodes cimport Leaf

import numpy as np

from tensor.core.tensor import wrap_snapshot_unowned

cnp.import_array()

cdef object _add = np.add


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
