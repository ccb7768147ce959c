"""Product of a sparse matrix and an array along one axis, on the thread pool.

``AxisMatrix`` (`tensor.kernels.axis_matrices`) creates the matrices. Entries of a row are summed in order, so
results do not depend on the number of threads. Call it inside a kernel context (`tensor.kernels.context`).
"""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tensor.kernels.axes cimport Axis, Kernel, kind_of, new_array, one_axis, run_units
from tensor.kernels.simd cimport simd_level

cnp.import_array()

cdef extern from "tensor/kernels/sparse.h" namespace "disposescope::kernels" nogil:
    cdef struct SparseWork:
        Py_ssize_t count
        Py_ssize_t length
        Py_ssize_t behind
        const int64_t* starts
        const int64_t* columns
        const void* weights
        const void* x
        void* out
    cdef struct Sparse:
        Kernel along[2]
        Kernel across[2]
    const Sparse* sparse_kernels_of(int level)

cdef const Sparse* _kernels = sparse_kernels_of(simd_level)

cdef enum:
    # The number of products in a piece of work: about 5 us.
    PIECE = 1 << 13


def sparse_product(
    cnp.ndarray x not None, int axis, cnp.ndarray starts not None, cnp.ndarray columns not None,
    cnp.ndarray weights not None,
):
    """Return the product of a sparse matrix and `x` along `axis`, whose size becomes the number of rows.

    The matrix is in CSR format: row i has the values ``weights[j]`` in the columns ``columns[j]``, for j from
    ``starts[i]`` to ``starts[i + 1] - 1``. `x` and `weights` have the same dtype, float32 or float64. All
    arrays are C-contiguous. The caller guarantees that `columns` are valid indices into the axis. This is not
    checked.
    """
    cdef Axis seen = one_axis(x, axis)
    cdef cnp.npy_intp shape[64]  # the maximum number of dimensions
    cdef Py_ssize_t count = cnp.PyArray_SIZE(starts) - 1, entries = cnp.PyArray_SIZE(columns), each
    cdef int i, kind = kind_of(x)
    cdef cnp.ndarray out
    cdef SparseWork work
    if kind < 0 or kind_of(weights) != kind:
        raise TypeError("a sparse product takes C-contiguous arrays of one dtype, float32 or float64")
    for i in range(cnp.PyArray_NDIM(x)):
        shape[i] = cnp.PyArray_DIM(x, i)
    shape[axis] = count
    out = new_array(cnp.PyArray_NDIM(x), shape, cnp.PyArray_TYPE(x))
    if cnp.PyArray_SIZE(out) == 0:
        return out
    work.count = count
    work.length = seen.length
    work.behind = seen.behind
    work.starts = <const int64_t*>cnp.PyArray_DATA(starts)
    work.columns = <const int64_t*>cnp.PyArray_DATA(columns)
    work.weights = cnp.PyArray_DATA(weights)
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(out)
    # The average number of products for a row of the output.
    each = max(entries // count, 1) * seen.behind
    if seen.behind == 1:
        run_units(
            _kernels.along[kind], &work, seen.before, max(PIECE // (each * count), 1), cnp.PyArray_NBYTES(out)
        )
    else:
        run_units(
            _kernels.across[kind], &work, seen.before * count, max(PIECE // each, 1), cnp.PyArray_NBYTES(out)
        )
    return out
