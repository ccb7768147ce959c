"""Sums, means, extremes and variances of plain arrays over some axes.

They support C-contiguous float32 and float64 arrays. For other arrays each function returns None, and the
caller uses NumPy. They read an array once, on several threads if that is faster. Results do not depend on the
number of threads. The kernels are in `reductions.cpp`; `channels.h` describes how they divide an array.
"""

cimport numpy as cnp

from tensor.kernels.axes cimport Axis, Kernel, kind_of, new_array, new_reduced, run_units, some_axes
from tensor.kernels.simd cimport simd_level
from tensor.kernels.threads cimport even_grain

cnp.import_array()

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    cdef struct Parts:
        Py_ssize_t parts
        Py_ssize_t units
        Py_ssize_t grain
    Channels simplified(Channels shape)
    Parts parts_of(Channels shape)

cdef extern from "tensor/kernels/reductions.h" namespace "disposescope::kernels" nogil:
    cdef struct ReductionWork:
        Channels shape
        Parts parts
        const void* x
        const void* y
        const void* around
        double* first
        double* second
        void* out
        void* other
        double divisor
    cdef struct Reductions:
        Kernel sum[2]
        Kernel maximum[2]
        Kernel minimum[2]
        Kernel argmax[2]
        Kernel argmin[2]
        Kernel moments[2]
        Kernel products[2]
        Kernel end_sum[2]
        Kernel end_maximum[2]
        Kernel end_minimum[2]
        Kernel end_argmax[2]
        Kernel end_argmin[2]
        Kernel end_moments[2]
        Kernel end_products[2]
    const Reductions* reductions_kernels_of(int level)

cdef const Reductions* _kernels = reductions_kernels_of(simd_level)

cdef enum:
    # Up to this many states of parts are stored on the stack.
    FEW = 256
    # The number of channels whose states are joined in one piece of work.
    ENDS = 1 << 12

cdef int _run(
    Kernel kernel, Kernel end, ReductionWork* work, Py_ssize_t nbytes, Py_ssize_t grains=1
) except -1:
    """Run `kernel` for the units of `work`, with `grains` times the usual grain, and `end` for the channels.

    The caller keeps the arrays alive.
    """
    cdef double few[2 * FEW]
    cdef cnp.ndarray states
    cdef cnp.npy_intp count
    work.shape = simplified(work.shape)
    work.parts = parts_of(work.shape)
    count = work.shape.count * work.parts.parts
    if count <= FEW:
        work.first = few
    else:
        count *= 2
        states = new_array(1, &count, cnp.NPY_DOUBLE)
        count //= 2
        work.first = <double*>cnp.PyArray_DATA(states)
    work.second = work.first + count
    run_units(kernel, work, work.parts.units, even_grain(work.parts.units, grains * work.parts.grain), nbytes)
    run_units(end, work, work.shape.count, ENDS, nbytes)
    return 0


cdef bint _find(cnp.ndarray a, object axis, Channels* shape, Py_ssize_t* blocks) except -1:
    """Return whether kernels can reduce `axis` (None: all axes), as channels of `blocks` blocks of `a`."""
    cdef Axis along
    cdef int i, ndim = cnp.PyArray_NDIM(a), start = ndim, end = 0, kept = 0
    if cnp.PyArray_SIZE(a) == 0 or kind_of(a) < 0:
        return False
    blocks[0] = 1
    if isinstance(axis, tuple):
        for i in range(ndim):
            if i not in <tuple>axis:
                start = min(start, i)
                end = i + 1
                kept += 1
        if kept and end - start == kept:
            shape[0] = Channels(1, 1, 1)
            for i in range(ndim):
                if i < start:
                    shape.outer *= cnp.PyArray_DIM(a, i)
                elif i < end:
                    shape.count *= cnp.PyArray_DIM(a, i)
                else:
                    shape.inner *= cnp.PyArray_DIM(a, i)
            return True
    along = some_axes(a, axis)
    if along.length < 0:
        return False
    if along.behind == 1:
        shape[0] = Channels(1, along.before, along.length)
        return True
    shape[0] = Channels(along.length, along.behind, 1)
    blocks[0] = along.before
    # For many small blocks NumPy is as fast.
    return along.before == 1 or along.length * along.behind >= 4096


cdef cnp.ndarray _reduced(
    const Kernel* kernels, const Kernel* ends, cnp.ndarray a, object axis, bint keepdims, int typenum,
    double divisor,
):
    """Return the kernel's result for `a`, or None to use NumPy. The type -1 means the dtype of `a`."""
    cdef ReductionWork work
    cdef Channels shape
    cdef Py_ssize_t blocks, size
    cdef cnp.ndarray out
    cdef int kind
    if not _find(a, axis, &shape, &blocks):
        return None
    kind = kind_of(a)
    out = new_reduced(a, axis, keepdims, cnp.PyArray_TYPE(a) if typenum < 0 else typenum)
    size = cnp.PyArray_NBYTES(a) // blocks
    work.x = cnp.PyArray_DATA(a)
    work.out = cnp.PyArray_DATA(out)
    work.other = NULL
    work.divisor = divisor
    for _ in range(blocks):
        work.shape = shape
        # A sum of 32,000 floats takes 1.4 us, so a piece has two such sums.
        _run(kernels[kind], ends[kind], &work, size, 2)
        work.x = <const char*>work.x + size
        work.out = <char*>work.out + shape.count * cnp.PyArray_ITEMSIZE(out)
    return out


cdef double _count(cnp.ndarray a, object axis) except -1:
    cdef Axis along = some_axes(a, axis)
    cdef Py_ssize_t count = 1
    if along.length >= 0:
        return along.length
    for i in <tuple>axis:
        count *= cnp.PyArray_DIM(a, i)
    return count


def sum_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the sum over `axis`: an int or several ints, counted from the front, or None for all."""
    return _reduced(_kernels.sum, _kernels.end_sum, a, axis, keepdims, -1, 1)


def mean_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the mean over `axis`, like ``sum_over``."""
    return _reduced(_kernels.sum, _kernels.end_sum, a, axis, keepdims, -1, _count(a, axis))


def max_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the maximum over `axis`, like ``sum_over``; nan if one element is nan."""
    return _reduced(_kernels.maximum, _kernels.end_maximum, a, axis, keepdims, -1, 1)


def min_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the minimum over `axis`, like ``sum_over``; nan if one element is nan."""
    return _reduced(_kernels.minimum, _kernels.end_minimum, a, axis, keepdims, -1, 1)


def var_over(cnp.ndarray a not None, axis, bint keepdims, double correction):
    """Return the variance over `axis`: the sum of squared deviations / (count - `correction`)."""
    return _reduced(
        _kernels.moments, _kernels.end_moments, a, axis, keepdims, -1, _count(a, axis) - correction
    )


def argmax_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the indices of the first maximum along `axis`, an int, as int64; None to use NumPy."""
    return _places(_kernels.argmax, _kernels.end_argmax, a, axis, keepdims)


def argmin_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the indices of the first minimum along `axis`, like ``argmax_over``."""
    return _places(_kernels.argmin, _kernels.end_argmin, a, axis, keepdims)


cdef cnp.ndarray _places(
    const Kernel* kernels, const Kernel* ends, cnp.ndarray a, object axis, bint keepdims
):
    # Along the last axis, NumPy is as fast.
    if axis is None or _is_last(a, axis) or cnp.PyArray_DIM(a, axis) >= 1 << 31:
        return None
    return _reduced(kernels, ends, a, axis, keepdims, cnp.NPY_INT64, 1)


cdef bint _is_last(cnp.ndarray a, int axis) noexcept:
    cdef int i
    for i in range(axis + 1, cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIM(a, i) != 1:
            return False
    return True


cdef int moments(
    cnp.ndarray x, Channels shape, double correction, cnp.ndarray means, cnp.ndarray variances
) except -1:
    cdef ReductionWork work
    cdef int kind = kind_of(x)
    if cnp.PyArray_SIZE(x) == 0:
        raise ValueError("moments need at least one element")
    work.shape = shape
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(variances)
    work.other = NULL if means is None else cnp.PyArray_DATA(means)
    work.divisor = <double>shape.outer * shape.inner - correction
    return _run(_kernels.moments[kind], _kernels.end_moments[kind], &work, cnp.PyArray_NBYTES(x))


cdef int sums_of_products(
    cnp.ndarray x, cnp.ndarray y, cnp.ndarray around, Channels shape, cnp.ndarray sums, cnp.ndarray products
) except -1:
    cdef ReductionWork work
    cdef int kind = kind_of(x)
    if cnp.PyArray_SIZE(x) == 0:
        sums.fill(0)
        products.fill(0)
        return 0
    work.shape = shape
    work.x = cnp.PyArray_DATA(x)
    work.y = cnp.PyArray_DATA(y)
    work.around = cnp.PyArray_DATA(around)
    work.out = cnp.PyArray_DATA(sums)
    work.other = cnp.PyArray_DATA(products)
    return _run(_kernels.products[kind], _kernels.end_products[kind], &work, cnp.PyArray_NBYTES(x))
