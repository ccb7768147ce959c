"""Arrays of bfloat16: stored in 16 bits, computed in float32.

The package ml_dtypes adds the dtype to NumPy. Kernels get float32 arrays. Their results are rounded once to
bfloat16: to nearest, ties to even, as in PyTorch on a CPU.
"""

cimport numpy as cnp
from libc.stdint cimport uint16_t, uint32_t

from tensor.memory.buffer cimport empty

import numpy as np

cnp.import_array()

cdef object _float32 = np.dtype(np.float32)


cdef void _widen(const uint16_t* x, uint32_t* out, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = <uint32_t>x[i] << 16  # the upper half of a float32


cdef void _narrow(const uint32_t* x, uint16_t* out, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint32_t bits, rounded
    for i in range(count):
        bits = x[i]
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        # Rounding would turn some nans into infinity or 0.
        out[i] = <uint16_t>(0x7FC0 if (bits & 0x7FFFFFFF) > 0x7F800000 else rounded)


cdef object widened(object x):
    cdef cnp.ndarray given, out
    cdef Py_ssize_t count
    if not is_bfloat16(x):
        return x
    given = <cnp.ndarray>x
    if not cnp.PyArray_IS_C_CONTIGUOUS(given) or not cnp.PyArray_ISBEHAVED_RO(given):
        return (<object>given).astype(_float32)
    out = empty((<object>given).shape, _float32)
    count = cnp.PyArray_SIZE(given)
    with nogil:
        _widen(<const uint16_t*>cnp.PyArray_DATA(given), <uint32_t*>cnp.PyArray_DATA(out), count)
    return out


cdef cnp.ndarray narrowed(cnp.ndarray x, object dtype):
    cdef cnp.ndarray out
    cdef Py_ssize_t count
    if not cnp.PyArray_IS_C_CONTIGUOUS(x) or not cnp.PyArray_ISBEHAVED_RO(x):
        x = np.ascontiguousarray(x).reshape((<object>x).shape)
    out = empty((<object>x).shape, dtype)
    count = cnp.PyArray_SIZE(x)
    with nogil:
        _narrow(<const uint32_t*>cnp.PyArray_DATA(x), <uint16_t*>cnp.PyArray_DATA(out), count)
    return out


cdef object narrowed_result(object x, object dtype):
    if isinstance(x, tuple):
        parts = []
        for part in x:
            parts.append(narrowed_result(part, dtype))
        return tuple(parts)
    if isinstance(x, np.generic):
        x = np.asarray(x)
    if isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT:
        return narrowed(<cnp.ndarray>x, dtype)
    return x


cdef class Wide:
    """Wrapper of a kernel: converts bfloat16 arrays to float32, and float32 results to bfloat16."""

    cdef object kernel

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, *operands, **options):
        cdef list wide = []
        dtype = None
        for x in operands:
            if is_bfloat16(x):
                dtype = (<object>x).dtype
            wide.append(widened(x))
        result = self.kernel(*wide, **options)
        return result if dtype is None else narrowed_result(result, dtype)


cdef object wide_for(object kernel, operands):
    for x in operands:
        if is_bfloat16(x):
            return Wide(kernel)
    return kernel


def widen(x):
    """Return `x` as float32 if it is bfloat16, else `x` itself."""
    return widened(x)


def narrow(cnp.ndarray x not None, dtype):
    """Return the array `x` as float32 rounded to bfloat16 (`dtype`): to nearest, ties to even."""
    return narrowed(x if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT else (<object>x).astype(_float32), dtype)


def write_wide(write, cnp.ndarray array not None, *others) -> None:
    """Call ``write(array, *others)``. If `array` is bfloat16, write to a float32 copy and round that."""
    if not is_bfloat16(array):
        write(array, *others)
        return
    wide = widened(array)
    write(wide, *map(widened, others))
    array[...] = wide


def in_float32(kernel, *operands):
    """Return ``kernel(*operands)``. With bfloat16 operands, compute in float32 and round once."""
    return wide_for(kernel, operands)(*operands)
