"""Elementwise choice between two values, on the thread pool."""

cimport numpy as cnp
from libc.stdint cimport uintptr_t

from tensor.kernels.elementwise cimport CHEAP, BinaryLoops, Loop, binary_kernel
from tensor.kernels.simd cimport simd_level
from tensor.kernels.threads cimport even_grain, parallel_for

import numpy as np

from tensor.kernels import masks

cnp.import_array()

cdef extern from "tensor/kernels/choices.h" namespace "disposescope::kernels" nogil:
    struct Choice:
        const unsigned char* condition
        Py_ssize_t conditions
        const void* a
        const void* b
        void* out
        Py_ssize_t step_of_a
        Py_ssize_t step_of_b
    struct Choices:
        Loop choose[4]
        BinaryLoops keep_nonzero
    const Choices* choices_kernels_of(int level)

cdef const Choices* _loops = choices_kernels_of(simd_level)

keep_nonzero = binary_kernel(_loops.keep_nonzero, masks.keep_nonzero, False)


cdef int _place(Py_ssize_t itemsize) noexcept:
    return 0 if itemsize == 1 else 1 if itemsize == 2 else 2 if itemsize == 4 else 3 if itemsize == 8 else -1


cdef bint _repeats(cnp.ndarray condition, cnp.ndarray like) noexcept:
    """Return whether `condition` broadcasts to `like` by repeating all its elements in order."""
    cdef int i, missing = cnp.PyArray_NDIM(like) - cnp.PyArray_NDIM(condition)
    cdef bint has_begun = False
    if missing < 0:
        return False
    for i in range(cnp.PyArray_NDIM(condition)):
        if cnp.PyArray_DIM(condition, i) == cnp.PyArray_DIM(like, missing + i):
            has_begun = has_begun or cnp.PyArray_DIM(condition, i) != 1
        elif has_begun or cnp.PyArray_DIM(condition, i) != 1:
            return False
    return True


def choose(cnp.ndarray condition not None, cnp.ndarray a not None, cnp.ndarray b not None):
    """Return `a` where `condition` is true and `b` elsewhere, or None for unsupported arrays.

    `condition` is an array of bools. `a` and `b` have the same numeric dtype, and the same shape or no
    dimensions. All are C-contiguous. `condition` has the same shape, or that of the last dimensions, such as
    one mask for all samples of a batch.

    >>> import numpy as np
    >>> choose(np.array([True, False]), np.array([1.0, 2.0]), np.array(0.5)).tolist()
    [1.0, 0.5]
    """
    cdef Choice choice
    cdef cnp.ndarray out, x, like = a if cnp.PyArray_NDIM(a) != 0 else b
    cdef Py_ssize_t grain
    cdef int place = _place(cnp.PyArray_ITEMSIZE(a))
    if cnp.PyArray_TYPE(condition) != cnp.NPY_BOOL or not cnp.PyArray_IS_C_CONTIGUOUS(condition):
        return None
    if place < 0 or cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(b) or a.dtype.kind not in "biufc":
        return None
    if cnp.PyArray_NDIM(like) == 0:
        like = condition
    if not _repeats(condition, like):
        return None
    for x in (a, b):
        if not cnp.PyArray_IS_C_CONTIGUOUS(x) or not cnp.PyArray_ISBEHAVED_RO(x):
            return None
        # The kernel reads complex numbers as integers of their size, which may need a stricter alignment.
        if <uintptr_t>cnp.PyArray_DATA(x) % <uintptr_t>cnp.PyArray_ITEMSIZE(x):
            return None
        if cnp.PyArray_NDIM(x) != 0 and not cnp.PyArray_SAMESHAPE(x, like):
            return None
    out = np.empty((<object> like).shape, a.dtype)
    choice.condition = <const unsigned char*> cnp.PyArray_DATA(condition)
    choice.conditions = max(cnp.PyArray_SIZE(condition), 1)
    choice.a = cnp.PyArray_DATA(a)
    choice.b = cnp.PyArray_DATA(b)
    choice.out = cnp.PyArray_DATA(out)
    choice.step_of_a = 1 if cnp.PyArray_NDIM(a) != 0 else 0
    choice.step_of_b = 1 if cnp.PyArray_NDIM(b) != 0 else 0
    with nogil:  # the arrays above keep the memory alive
        grain = even_grain(cnp.PyArray_SIZE(out), CHEAP // cnp.PyArray_ITEMSIZE(out))
        parallel_for(cnp.PyArray_SIZE(out), grain, _loops.choose[place], &choice)
    return out
