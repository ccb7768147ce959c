"""Softmax, log_softmax, logsumexp and cross entropy of plain arrays.

The kernels read an array once or twice, on several threads if that is faster. Results do not depend on the
number of threads. The kernels are in `softmax.cpp`.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tensor.kernels.axes cimport (
    Axis,
    Kernel,
    kind_of,
    new_array,
    new_like,
    new_reduced,
    one_axis,
    run,
    some_axes,
)
from tensor.kernels.simd cimport simd_level

import numpy as np

cnp.import_array()

cdef extern from "tensor/kernels/softmax.h" namespace "disposescope::kernels" nogil:
    cdef struct SoftmaxWork:
        Axis axis
        const void* x
        const void* gradient
        void* out
    cdef struct CrossEntropyWork:
        Axis axis
        const void* x
        const int64_t* classes
        void* out
        void* tops
        void* sums
        double loss_gradient
    cdef struct Softmax:
        Kernel softmax[2]
        Kernel log_softmax[2]
        Kernel logsumexp[2]
        Kernel softmax_backward[2]
        Kernel log_softmax_backward[2]
        Kernel cross_entropy[2]
        Kernel cross_entropy_backward[2]
    const Softmax* softmax_kernels_of(int level)

cdef const Softmax* _kernels = softmax_kernels_of(simd_level)

# The number of elements in a piece of work. Their exponentials take about 3 us.
cdef Py_ssize_t _PIECE = 1 << 13


def softmax(cnp.ndarray a not None, int axis, cnp.ndarray out=None):
    """Return exp(a) divided by its sum along `axis`, which must be at least 0. Compute integers in float32.

    `out` is None or `a`. With `a`, write the result there if its dtype and layout are supported.
    """
    return _run_along(_kernels.softmax, a, axis, out is a)


def log_softmax(cnp.ndarray a not None, int axis, cnp.ndarray out=None):
    """Return the logarithm of ``softmax(a, axis)``."""
    return _run_along(_kernels.log_softmax, a, axis, out is a)


cdef cnp.ndarray _run_along(const Kernel* kernels, cnp.ndarray a, int axis, bint may_overwrite):
    cdef cnp.ndarray x = a, out
    cdef SoftmaxWork work
    cdef int kind = kind_of(a)
    if kind >= 0:
        # Kernels read each element of a row, or of a block of columns, before they write it.
        out = a if may_overwrite else new_like(a)
    elif cnp.PyArray_ISCOMPLEX(a):
        raise TypeError("softmax does not support complex numbers; take .real or .abs() first")
    elif kind_of(a.T) >= 0:
        return _run_along(kernels, a.T, cnp.PyArray_NDIM(a) - 1 - axis, False).T  # in the memory order of `a`
    else:
        x = out = _copied(a)
        kind = kind_of(x)
    work.axis = one_axis(x, axis)
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(out)
    if cnp.PyArray_SIZE(x):  # there may be many empty rows
        run(kernels[kind], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
    return out if cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT16 else out.astype(np.float16)


cdef cnp.ndarray _copied(cnp.ndarray a):
    """Return a copy with a layout and dtype that kernels support."""
    return a.astype(np.float64 if cnp.PyArray_TYPE(a) == cnp.NPY_DOUBLE else np.float32, order="C")


def logsumexp(cnp.ndarray a not None, axis, bint keepdims):
    """Return log(sum(exp(a))) over `axis`: an int, several ints, or None for all."""
    cdef cnp.ndarray x = a, out
    cdef SoftmaxWork work
    work.axis = some_axes(a, axis)
    if cnp.PyArray_ISCOMPLEX(a) or work.axis.length < 0:
        return _logsumexp_by_numpy(a, axis, keepdims)
    if kind_of(x) < 0:
        x = _copied(a)
    out = new_reduced(x, axis, keepdims, cnp.PyArray_TYPE(x))
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(out)
    run(_kernels.logsumexp[kind_of(x)], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
    return out if cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT16 else out.astype(np.float16)


def _logsumexp_by_numpy(a, axis, keepdims):
    top = np.maximum.reduce(a.real, axis, None, None, True, -np.inf)
    top = np.where(np.isfinite(top), top, 0)
    found = np.log(np.add.reduce(np.exp(a - top), axis, None, None, True)) + top
    found = found.astype(np.float16) if a.dtype == np.float16 else found
    return found if keepdims else found.squeeze(axis)


def softmax_backward(cnp.ndarray g not None, cnp.ndarray out not None, int axis):
    """Return the gradient of a softmax's input along `axis`, from its output `out` and the gradient `g`."""
    return _backward(_kernels.softmax_backward, g, out, axis)


def log_softmax_backward(cnp.ndarray g not None, cnp.ndarray out not None, int axis):
    """Return the gradient of a log_softmax's input along `axis`, from its output and the gradient `g`."""
    return _backward(_kernels.log_softmax_backward, g, out, axis)


cdef cnp.ndarray _backward(const Kernel* kernels, cnp.ndarray g, cnp.ndarray out, int axis):
    cdef cnp.ndarray dx
    cdef SoftmaxWork work
    cdef int kind = kind_of(out)
    if kind < 0 and kind_of(out.T) >= 0:
        return _backward(kernels, g.T, out.T, cnp.PyArray_NDIM(out) - 1 - axis).T
    if kind < 0:
        out = _copied(out)
        kind = kind_of(out)
    if kind_of(g) != kind:
        g = g.astype(out.dtype, order="C")
    dx = new_like(out)
    work.axis = one_axis(out, axis)
    work.x = cnp.PyArray_DATA(out)
    work.gradient = cnp.PyArray_DATA(g)
    work.out = cnp.PyArray_DATA(dx)
    if cnp.PyArray_SIZE(out):
        run(kernels[kind], &work, work.axis, cnp.PyArray_ITEMSIZE(out), _PIECE)
    return dx


def mean_cross_entropy(cnp.ndarray x not None, cnp.ndarray classes not None):
    """Return the mean cross entropy of the rows of `x` with `classes`, and two arrays for its gradient.

    The two arrays have the maximum of each row, and the sum of exponentials relative to it. Return None if a
    class is negative or not less than the length of a row.

    Parameters
    ----------
    x
        Shape ``(batch, classes)``, float32 or float64, not empty.
    classes
        Shape ``(batch,)``, int64.
    """
    cdef cnp.ndarray losses, tops, sums
    cdef CrossEntropyWork work
    cdef cnp.npy_intp count
    cdef int typenum, kind
    cdef Py_ssize_t i
    if x.ndim != 2 or classes.ndim != 1 or cnp.PyArray_DIM(x, 0) != cnp.PyArray_DIM(classes, 0):
        raise ValueError(
            f"mean_cross_entropy: x must have shape (batch, classes), and classes (batch,), not "
            f"{(<object>x).shape} and {(<object>classes).shape}"
        )
    if kind_of(x) < 0:
        x = _copied(x)
    kind, typenum, count = kind_of(x), cnp.PyArray_TYPE(x), cnp.PyArray_DIM(x, 0)
    classes = _int64_of(classes)
    # The kernel checks each class again, because another thread may write to them meanwhile.
    for i in range(count):
        if not 0 <= (<const int64_t*>cnp.PyArray_DATA(classes))[i] < cnp.PyArray_DIM(x, 1):
            return None
    losses, tops = new_array(1, &count, typenum), new_array(1, &count, typenum)
    sums = new_array(1, &count, typenum)
    work = _cross_entropy_of(x, classes, losses, tops, sums)
    run(_kernels.cross_entropy[kind], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
    return np.asarray(np.add.reduce(losses) / losses.dtype.type(count)), tops, sums


cdef CrossEntropyWork _cross_entropy_of(
    cnp.ndarray x, cnp.ndarray classes, cnp.ndarray out, cnp.ndarray tops, cnp.ndarray sums
):
    cdef CrossEntropyWork work
    work.axis = Axis(cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1), 1)
    work.x = cnp.PyArray_DATA(x)
    work.classes = <const int64_t*>cnp.PyArray_DATA(classes)
    work.out = cnp.PyArray_DATA(out)
    work.tops = cnp.PyArray_DATA(tops)
    work.sums = cnp.PyArray_DATA(sums)
    work.loss_gradient = 0
    return work


cdef cnp.ndarray _int64_of(cnp.ndarray a):
    if cnp.PyArray_TYPE(a) == cnp.NPY_INT64 and cnp.PyArray_ISCARRAY_RO(a):
        return a
    return a.astype(np.int64, order="C")


def cross_entropy_backward(
    cnp.ndarray g not None, cnp.ndarray x not None, cnp.ndarray classes not None, cnp.ndarray tops not None,
    cnp.ndarray sums not None,
):
    """Return the gradient of `x` for the gradient `g` of the mean.

    See ``mean_cross_entropy`` for the other arguments.

    The gradient of a row with an invalid class is nan.
    """
    cdef cnp.ndarray out
    cdef CrossEntropyWork work
    if kind_of(x) < 0:
        x = _copied(x)
    classes = _int64_of(classes)
    out = new_like(x)
    work = _cross_entropy_of(x, classes, out, tops, sums)
    work.loss_gradient = <double>g.item() / cnp.PyArray_DIM(x, 0)
    run(_kernels.cross_entropy_backward[kind_of(x)], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
    return out
