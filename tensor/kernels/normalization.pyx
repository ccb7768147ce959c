"""Layer, RMS and batch normalization of plain arrays, and their gradients.

Arrays have one dtype, float32 or float64, and are C-contiguous; ``as_one_dtype`` converts them. The kernels
read each array about twice, on several threads if that is faster. Results do not depend on the number of
threads. The kernels are in `normalization.cpp`.
"""

cimport numpy as cnp

from tensor.kernels.axes cimport Kernel, kind_of, new_array, new_like, run_units
from tensor.kernels.reductions cimport Channels, moments, sums_of_products
from tensor.kernels.simd cimport simd_level

import numpy as np

cnp.import_array()

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    const Py_ssize_t chunk_columns
    bint are_columns(Channels shape)
    Py_ssize_t ceil_of(Py_ssize_t n, Py_ssize_t by)
    Channels simplified(Channels shape)

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

cdef const Normalization* _kernels = normalization_kernels_of(simd_level)

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
    run_units(_kernels.rows[kind_of(x)], &work, work.rows, work.grain, cnp.PyArray_NBYTES(x))
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
    run_units(_kernels.rows_backward[kind], &work, work.rows, work.grain, cnp.PyArray_NBYTES(x))
    if work.weight_parts != NULL:
        run_units(_kernels.sum_row_parts[kind], &work, work.length, 512, 0)
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
    _kernels.inverses[kind_of(variances)](&work, 0, cnp.PyArray_SIZE(variances))
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
    _run_channels(_kernels.channels[kind_of(x)], &work, _channels(x), x)
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
        _run_channels(_kernels.channels_backward[kind_of(x)], &work, shape, x)
    return dx, products if wants_weight else None, sums if wants_bias else None
