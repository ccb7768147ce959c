"""Reductions, softmax, cross entropy and normalization of float32 and float64, along axes.

The kernels read an array once or twice, on several threads if that is faster. Results do not depend on the
number of threads. Loops are in `reductions.cpp`, `softmax.cpp` and `normalization.cpp`.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tensor.kernels.running cimport (
    Axis,
    Kernel,
    ceil_of,
    even_grain,
    kind_of,
    new_array,
    new_like,
    new_reduced,
    one_axis,
    run,
    run_units,
    simd_level,
    some_axes,
)

import numpy as np

cnp.import_array()


# --- Reductions ---------------------------------------------------------------------------------------------
#
# Sums, means, extremes and variances of plain arrays over some axes.
#
# They support C-contiguous float32 and float64 arrays. For other arrays each function returns None, and the
# caller uses NumPy. They read an array once, on several threads if that is faster. Results do not depend on
# the number of threads. The kernels are in `reductions.cpp`; `channels.h` describes how they divide an
# array.

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    const Py_ssize_t chunk_columns
    cdef struct Channels:
        Py_ssize_t outer
        Py_ssize_t count
        Py_ssize_t inner
    bint are_columns(Channels shape)
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

cdef const Reductions* _reductions = reductions_kernels_of(simd_level)

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
    return _reduced(_reductions.sum, _reductions.end_sum, a, axis, keepdims, -1, 1)


def mean_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the mean over `axis`, like ``sum_over``."""
    return _reduced(_reductions.sum, _reductions.end_sum, a, axis, keepdims, -1, _count(a, axis))


def max_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the maximum over `axis`, like ``sum_over``; nan if one element is nan."""
    return _reduced(_reductions.maximum, _reductions.end_maximum, a, axis, keepdims, -1, 1)


def min_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the minimum over `axis`, like ``sum_over``; nan if one element is nan."""
    return _reduced(_reductions.minimum, _reductions.end_minimum, a, axis, keepdims, -1, 1)


def var_over(cnp.ndarray a not None, axis, bint keepdims, double correction):
    """Return the variance over `axis`: the sum of squared deviations / (count - `correction`)."""
    return _reduced(
        _reductions.moments, _reductions.end_moments, a, axis, keepdims, -1, _count(a, axis) - correction
    )


def argmax_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the indices of the first maximum along `axis`, an int, as int64; None to use NumPy."""
    return _places(_reductions.argmax, _reductions.end_argmax, a, axis, keepdims)


def argmin_over(cnp.ndarray a not None, axis, bint keepdims):
    """Return the indices of the first minimum along `axis`, like ``argmax_over``."""
    return _places(_reductions.argmin, _reductions.end_argmin, a, axis, keepdims)


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
    """Write the mean of each channel of `x` to `means`, which may be None, and the variance to `variances`.

    The variance is divided by the count minus `correction`. Both have one element for each channel, in the
    dtype of `x`.
    """
    cdef ReductionWork work
    cdef int kind = kind_of(x)
    if cnp.PyArray_SIZE(x) == 0:
        raise ValueError("moments need at least one element")
    work.shape = shape
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(variances)
    work.other = NULL if means is None else cnp.PyArray_DATA(means)
    work.divisor = <double>shape.outer * shape.inner - correction
    return _run(_reductions.moments[kind], _reductions.end_moments[kind], &work, cnp.PyArray_NBYTES(x))


cdef int sums_of_products(
    cnp.ndarray x, cnp.ndarray y, cnp.ndarray around, Channels shape, cnp.ndarray sums, cnp.ndarray products
) except -1:
    """Write the sum of each channel of `y` to `sums`, and that of y * (x - around) to `products`."""
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
    return _run(_reductions.products[kind], _reductions.end_products[kind], &work, cnp.PyArray_NBYTES(x))


# --- Softmax and cross entropy ------------------------------------------------------------------------------
#
# Softmax, log_softmax, logsumexp and cross entropy of plain arrays.
#
# The kernels read an array once or twice, on several threads if that is faster. Results do not depend on the
# number of threads. The kernels are in `softmax.cpp`.

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

cdef const Softmax* _softmax = softmax_kernels_of(simd_level)

# The number of elements in a piece of work. Their exponentials take about 3 us.
cdef Py_ssize_t _PIECE = 1 << 13


def softmax(cnp.ndarray a not None, int axis, cnp.ndarray out=None):
    """Return exp(a) divided by its sum along `axis`, which must be at least 0. Compute integers in float32.

    `out` is None or `a`. With `a`, write the result there if its dtype and layout are supported.
    """
    return _run_along(_softmax.softmax, a, axis, out is a)


def log_softmax(cnp.ndarray a not None, int axis, cnp.ndarray out=None):
    """Return the logarithm of ``softmax(a, axis)``."""
    return _run_along(_softmax.log_softmax, a, axis, out is a)


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
    run(_softmax.logsumexp[kind_of(x)], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
    return out if cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT16 else out.astype(np.float16)


def _logsumexp_by_numpy(a, axis, keepdims):
    top = np.maximum.reduce(a.real, axis, None, None, True, -np.inf)
    top = np.where(np.isfinite(top), top, 0)
    found = np.log(np.add.reduce(np.exp(a - top), axis, None, None, True)) + top
    found = found.astype(np.float16) if a.dtype == np.float16 else found
    return found if keepdims else found.squeeze(axis)


def softmax_backward(cnp.ndarray g not None, cnp.ndarray out not None, int axis):
    """Return the gradient of a softmax's input along `axis`, from its output `out` and the gradient `g`."""
    return _backward(_softmax.softmax_backward, g, out, axis)


def log_softmax_backward(cnp.ndarray g not None, cnp.ndarray out not None, int axis):
    """Return the gradient of a log_softmax's input along `axis`, from its output and the gradient `g`."""
    return _backward(_softmax.log_softmax_backward, g, out, axis)


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
    run(_softmax.cross_entropy[kind], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
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
    run(_softmax.cross_entropy_backward[kind_of(x)], &work, work.axis, cnp.PyArray_ITEMSIZE(x), _PIECE)
    return out


# --- Normalization ------------------------------------------------------------------------------------------
#
# Layer, RMS and batch normalization of plain arrays, and their gradients.
#
# Arrays have one dtype, float32 or float64, and are C-contiguous; ``as_one_dtype`` converts them. The kernels
# read each array about twice, on several threads if that is faster. Results do not depend on the number of
# threads. The kernels are in `normalization.cpp`.

cdef extern from "tensor/kernels/normalization.h" namespace "disposescope::kernels" nogil:
    const Py_ssize_t rows_of_chunk
    cdef struct RowNormWork:
        Py_ssize_t rows
        Py_ssize_t length
        Py_ssize_t grain
        const void* x
        const void* gradient
        const void* weight
        const void* bias
        void* out
        void* means
        void* inverses
        double eps
        void* weight_parts
        void* bias_parts
        void* weight_gradient
        void* bias_gradient
    cdef struct ChannelNormWork:
        Channels shape
        const void* x
        const void* gradient
        void* out
        const void* means
        const void* inverses
        const void* weight
        const void* bias
        const void* sums
        const void* products
        double share
    cdef struct InversesWork:
        const void* variances
        void* out
        double eps
    cdef struct Normalization:
        Kernel rows[2]
        Kernel rows_backward[2]
        Kernel sum_row_parts[2]
        Kernel inverses[2]
        Kernel channels[2]
        Kernel channels_backward[2]
    const Normalization* normalization_kernels_of(int level)

cdef const Normalization* _normalization = normalization_kernels_of(simd_level)

cdef enum:
    # The number of elements in a piece of work: about 5 us.
    PIECE = 1 << 14
    # The most pieces in backward, each with its own sums over columns. A piece has at least 8 rows, or an
    # eighth of the rows if there are fewer than 64.
    MAX_PIECES = 32


def as_one_dtype(*arrays):
    """Return the arrays (or None) C-contiguous and in their common dtype, at least float32."""
    cdef int kind = kind_of(arrays[0])
    cdef bint are_one = kind >= 0
    for a in arrays:
        are_one = are_one and (a is None or kind_of(a) == kind)
    if are_one:
        return arrays
    dtype = np.dtype(np.float32)
    for a in arrays:
        if a is not None:
            dtype = np.promote_types(dtype, a.dtype)  # float32 for float16 and bfloat16
    found = []
    for a in arrays:
        if a is not None and (kind_of(a) < 0 or a.dtype != dtype):
            a = a.astype(dtype, order="C")
        found.append(a)
    return found


cdef void* _data(cnp.ndarray a) noexcept:
    return NULL if a is None else cnp.PyArray_DATA(a)


cdef int _set_rows(RowNormWork* work, cnp.ndarray x, int count, cnp.ndarray weight) except -1:
    """Use the last `count` dimensions of `x` as rows."""
    cdef int i, split = cnp.PyArray_NDIM(x) - count
    work.rows = work.length = 1
    for i in range(split):
        work.rows *= cnp.PyArray_DIM(x, i)
    for i in range(split, cnp.PyArray_NDIM(x)):
        work.length *= cnp.PyArray_DIM(x, i)
    work.grain = max(PIECE // max(work.length, 1), 1)
    work.x = _data(x)
    work.weight = _data(weight)
    return 0


def normalize_rows(
    cnp.ndarray x not None, int count, cnp.ndarray weight, cnp.ndarray bias, double eps, bint is_centred
):
    """Return `x` with mean square 1 over its last `count` dimensions, times `weight` plus `bias`.

    If `is_centred`, subtract the mean of each row first. Also return these means (or None), and the factor
    that scales each row.
    """
    cdef RowNormWork work
    cdef cnp.ndarray out = new_like(x), means = None, inverses
    cdef cnp.npy_intp rows
    _set_rows(&work, x, count, weight)
    rows = work.rows
    inverses = new_array(1, &rows, cnp.PyArray_TYPE(x))
    if is_centred:
        means = new_array(1, &rows, cnp.PyArray_TYPE(x))
    work.bias = _data(bias)
    work.out = _data(out)
    work.means = _data(means)
    work.inverses = _data(inverses)
    work.eps = eps
    run_units(_normalization.rows[kind_of(x)], &work, work.rows, work.grain, cnp.PyArray_NBYTES(x))
    return out, means, inverses


cdef cnp.ndarray _over(cnp.ndarray g, cnp.ndarray x):
    """Return `g` if it is writable and has the layout of `x`, else a new array like `x`."""
    if (
        cnp.PyArray_ISCARRAY(g)
        and cnp.PyArray_IS_C_CONTIGUOUS(x)
        and cnp.PyArray_SAMESHAPE(g, x)
        and cnp.PyArray_TYPE(g) == cnp.PyArray_TYPE(x)
    ):
        return g
    return new_like(x)


def normalize_rows_backward(
    cnp.ndarray g not None, cnp.ndarray x not None, int count, cnp.ndarray weight, cnp.ndarray means,
    cnp.ndarray inverses not None, bint wants_x, bint wants_weight, bint wants_bias, bint may_overwrite=False,
):
    """Return the gradients of ``normalize_rows`` for `x`, `weight` and `bias`; None for those not wanted.

    With `may_overwrite`, the gradient of `x` may overwrite `g`.
    """
    cdef RowNormWork work
    cdef cnp.ndarray dx = None, dw = None, db = None, parts
    cdef cnp.npy_intp shape[3]
    cdef int kind = kind_of(x), typenum = cnp.PyArray_TYPE(x)
    cdef Py_ssize_t pieces
    _set_rows(&work, x, count, weight)
    work.gradient = _data(g)
    work.means = _data(means)
    work.inverses = _data(inverses)
    if wants_x:
        dx = _over(g, x) if may_overwrite else new_like(x)
    work.out = _data(dx)
    work.weight_parts = work.bias_parts = NULL
    if wants_weight or wants_bias:
        work.grain = max(work.grain, ceil_of(work.rows, MAX_PIECES), min(ceil_of(work.rows, 8), 8))
        pieces = ceil_of(work.rows, work.grain)
        shape[0], shape[1], shape[2] = 2, pieces, work.length
        parts = new_array(3, shape, typenum)
        work.weight_parts = _data(parts)
        work.bias_parts = <char*>work.weight_parts + pieces * work.length * cnp.PyArray_ITEMSIZE(x)
        if wants_weight:
            dw = new_array(count, cnp.PyArray_DIMS(x) + cnp.PyArray_NDIM(x) - count, typenum)
        if wants_bias:
            db = new_array(count, cnp.PyArray_DIMS(x) + cnp.PyArray_NDIM(x) - count, typenum)
    work.weight_gradient = _data(dw)
    work.bias_gradient = _data(db)
    run_units(_normalization.rows_backward[kind], &work, work.rows, work.grain, cnp.PyArray_NBYTES(x))
    if work.weight_parts != NULL:
        run_units(_normalization.sum_row_parts[kind], &work, work.length, 512, 0)
    return dx, dw, db


cdef Channels _channels(cnp.ndarray x) noexcept:
    """Describe `x`, with shape (batch, channels, *), as channels."""
    cdef Channels shape = Channels(cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1), 1)
    cdef int i
    for i in range(2, cnp.PyArray_NDIM(x)):
        shape.inner *= cnp.PyArray_DIM(x, i)
    return shape


def inverses_of(cnp.ndarray variances not None, double eps):
    """Return 1 / sqrt(variances + eps) of a one-dimensional array."""
    cdef cnp.ndarray found = new_like(variances)
    cdef InversesWork work = InversesWork(_data(variances), _data(found), eps)
    _normalization.inverses[kind_of(variances)](&work, 0, cnp.PyArray_SIZE(variances))
    return found


def blend(cnp.ndarray running not None, cnp.ndarray new not None, double momentum, double factor):
    """Set `running` to running * (1 - momentum) + new * factor * momentum."""
    cdef Py_ssize_t i, count = cnp.PyArray_SIZE(running)
    cdef double kept = 1 - momentum, share = momentum * factor
    if kind_of(running) == 0 and kind_of(new) == 0:
        for i in range(count):
            (<float*>_data(running))[i] = <float>(
                kept * (<float*>_data(running))[i] + share * (<float*>_data(new))[i])
    else:
        running *= kept
        running += share * new


def moments_of_channels(cnp.ndarray x not None):
    """Return mean and variance of each channel of `x`, with shape ``(batch, channels, *)`` and not empty."""
    cdef Channels shape = _channels(x)
    cdef cnp.npy_intp count = shape.count
    cdef cnp.ndarray means = new_array(1, &count, cnp.PyArray_TYPE(x))
    cdef cnp.ndarray variances = new_array(1, &count, cnp.PyArray_TYPE(x))
    moments(x, shape, 0, means, variances)
    return means, variances


cdef int _run_channels(Kernel kernel, ChannelNormWork* work, Channels shape, cnp.ndarray x) except -1:
    cdef Py_ssize_t units, each
    if cnp.PyArray_SIZE(x) == 0:  # there may be many empty segments
        return 0
    work.shape = simplified(shape)
    shape = work.shape
    if are_columns(shape):
        units = ceil_of(shape.outer, rows_of_chunk) * ceil_of(shape.count, chunk_columns)
        each = min(shape.outer, rows_of_chunk) * min(shape.count, chunk_columns)
    else:
        units, each = shape.outer * shape.count, shape.inner
    return run_units(kernel, work, units, max(PIECE // max(each, 1), 1), cnp.PyArray_NBYTES(x))


def normalize_channels(
    cnp.ndarray x not None, cnp.ndarray means not None, cnp.ndarray inverses not None, cnp.ndarray weight,
    cnp.ndarray bias,
):
    """Return ``(x - means) * inverses * weight + bias``, by channel. `weight` and `bias` may be None."""
    cdef ChannelNormWork work
    cdef cnp.ndarray out = new_like(x)
    work.x = _data(x)
    work.out = _data(out)
    work.means = _data(means)
    work.inverses = _data(inverses)
    work.weight = _data(weight)
    work.bias = _data(bias)
    _run_channels(_normalization.channels[kind_of(x)], &work, _channels(x), x)
    return out


def normalize_channels_backward(
    cnp.ndarray g not None, cnp.ndarray x not None, cnp.ndarray weight, cnp.ndarray means not None,
    cnp.ndarray inverses not None, bint are_own, bint wants_x, bint wants_weight, bint wants_bias,
    bint may_overwrite=False,
):
    """Return the gradients of ``normalize_channels`` for `x`, `weight` and `bias`; None for those not wanted.

    `are_own` means that `means` and `inverses` were computed from `x` itself. With `may_overwrite`, the
    gradient of `x` may overwrite `g`.
    """
    cdef ChannelNormWork work
    cdef Channels shape = _channels(x)
    cdef cnp.npy_intp channels = shape.count
    cdef cnp.ndarray dx = None, sums = None, products = None
    cdef int typenum = cnp.PyArray_TYPE(x)
    if wants_weight or wants_bias or (wants_x and are_own):
        sums, products = new_array(1, &channels, typenum), new_array(1, &channels, typenum)
        sums_of_products(x, g, means, shape, sums, products)
        products *= inverses
    if wants_x:
        dx = _over(g, x) if may_overwrite else new_like(x)
        work.x = _data(x)
        work.gradient = _data(g)
        work.out = _data(dx)
        work.means = _data(means)
        work.inverses = _data(inverses)
        work.weight = _data(weight)
        work.sums = NULL
        if are_own:
            work.sums = _data(sums)
            work.products = _data(products)
            work.share = 1 / (<double>shape.outer * shape.inner)
        _run_channels(_normalization.channels_backward[kind_of(x)], &work, shape, x)
    return dx, products if wants_weight else None, sums if wants_bias else None
