"""Matrix products, and functions of their results in the same pass, on the thread pool."""

cimport numpy as cnp

from tensor.kernels.axes cimport Kernel, new_array, run_units
from tensor.kernels.simd cimport simd_level

import numpy as np

cnp.import_array()

cdef extern from "tensor/kernels/products.h" namespace "disposescope::kernels" nogil:
    struct StackedProducts:
        Py_ssize_t rows
        Py_ssize_t inner
        Py_ssize_t columns
        Py_ssize_t a_row
        Py_ssize_t a_inner
        Py_ssize_t b_inner
        Py_ssize_t b_column
        const void* a
        const void* b
        void* out
        int ndim
        const Py_ssize_t* sizes
        const Py_ssize_t* a_steps
        const Py_ssize_t* b_steps
    struct MatrixProduct:
        Py_ssize_t rows
        Py_ssize_t inner
        Py_ssize_t columns
        Py_ssize_t rows_of_unit
        Py_ssize_t a_row
        Py_ssize_t a_inner
        Py_ssize_t b_inner
        Py_ssize_t b_column
        const void* a
        const void* b
        void* out
        const void* bias
        bint is_rectified
        Kernel function
        void* mapped
    const Py_ssize_t most_inner
    const Py_ssize_t panel_bytes
    struct Products:
        Kernel stacked[2]
        Kernel whole[2]
    const Products* products_kernels_of(int level)
    const int level_avx2

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    Py_ssize_t ceil_of(Py_ssize_t n, Py_ssize_t by)

cdef const Products* _kernels = products_kernels_of(simd_level)
cdef object _matmul = np.matmul

cdef enum:
    MAX_DIMENSIONS = 16
    # From this many rows and columns on, copying the second factor to panels is worth it.
    LEAST = 8
    # Divide a large product until it has UNITS units, or a unit has at most LEAST_ROWS rows. Each unit copies
    # its part of the second factor.
    UNITS = 16
    LEAST_ROWS = 64

# The most multiplications of a product in a stack (beyond, NumPy is as fast), and those in a piece of work.
cdef Py_ssize_t _LARGE = 1 << 22, _AT_ONCE = 1 << 17
# For products of two matrices: up to _TINY multiplications, a NumPy call takes longer than even a thin
# product. Up to _SMALL, a second thread saves little (10 us).
cdef Py_ssize_t _TINY = 1 << 12, _SMALL = 1 << 19
# Beyond this, a BLAS computes the product. With AVX2 it is as fast as these kernels on two threads, and up to
# 1.2 times as fast on one, so they only compute what one thread computes: if threads of a BLAS and of the
# pool take turns, each turn loses 0.2 ms. With AVX-512 these kernels are faster, except for products with
# larger blocks.
cdef Py_ssize_t _LARGEST = _SMALL if simd_level == level_avx2 else 3 << 27


cdef cnp.ndarray product_of_stacks(cnp.ndarray a, cnp.ndarray b):
    cdef StackedProducts work
    cdef Py_ssize_t sizes[MAX_DIMENSIONS]
    cdef Py_ssize_t a_steps[MAX_DIMENSIONS]
    cdef Py_ssize_t b_steps[MAX_DIMENSIONS]
    cdef cnp.npy_intp shape[MAX_DIMENSIONS]
    cdef int i, ndim = max(cnp.PyArray_NDIM(a), cnp.PyArray_NDIM(b)), number = cnp.PyArray_TYPE(a)
    cdef Py_ssize_t count = 1, products, itemsize = cnp.PyArray_ITEMSIZE(a)
    cdef cnp.ndarray out
    if (
        ndim < 3
        or ndim > MAX_DIMENSIONS
        or simd_level < level_avx2
        or number != cnp.PyArray_TYPE(b)
        or not (number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE)
        or not cnp.PyArray_ISBEHAVED_RO(a)
        or not cnp.PyArray_ISBEHAVED_RO(b)
        or cnp.PyArray_NDIM(a) < 2
        or cnp.PyArray_NDIM(b) < 2
    ):
        return None
    work.rows, work.inner = _size(a, ndim, ndim - 2), _size(a, ndim, ndim - 1)
    work.columns = _size(b, ndim, ndim - 1)
    products = work.rows * work.inner * work.columns
    if (
        work.inner != _size(b, ndim, ndim - 2)
        or work.inner > most_inner
        or work.inner == 0
        or work.rows < LEAST
        or work.columns < LEAST
        or products > _LARGE
    ):
        return None
    for i in range(ndim - 2):
        sizes[i] = _size(a, ndim, i) if _size(b, ndim, i) == 1 else _size(b, ndim, i)
        if sizes[i] == 0 or (_size(a, ndim, i) != sizes[i] and _size(a, ndim, i) != 1):
            return None
        a_steps[i], b_steps[i] = _step(a, ndim, i), _step(b, ndim, i)
        shape[i] = sizes[i]
        count *= sizes[i]
    if count == 1:
        return None
    shape[ndim - 2], shape[ndim - 1] = work.rows, work.columns
    work.a_row, work.a_inner = _step(a, ndim, ndim - 2), _step(a, ndim, ndim - 1)
    work.b_inner, work.b_column = _step(b, ndim, ndim - 2), _step(b, ndim, ndim - 1)
    out = new_array(ndim, shape, number)
    work.a = cnp.PyArray_DATA(a)
    work.b = cnp.PyArray_DATA(b)
    work.out = cnp.PyArray_DATA(out)
    work.ndim = ndim - 2
    work.sizes, work.a_steps, work.b_steps = sizes, a_steps, b_steps
    run_units(
        _kernels.stacked[0 if number == cnp.NPY_FLOAT else 1], &work, count, max(1, _AT_ONCE // products),
        count * work.rows * work.columns * itemsize,
    )
    return out


cdef cnp.ndarray product(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out=None):
    cdef cnp.ndarray found = finished_product(a, b, False, None, False, NULL, None, out)
    return _matmul(a, b, out) if found is None else found


cdef cnp.ndarray finished_product(
    cnp.ndarray a, cnp.ndarray b, bint is_transposed, cnp.ndarray bias, bint is_rectified, Kernel function,
    cnp.ndarray mapped, cnp.ndarray out=None,
):
    cdef MatrixProduct work
    # Do not create an array object for the transposed matrix: that takes 0.1 us, of 3 for a small product.
    cdef cnp.npy_intp[2] shape = [cnp.PyArray_DIM(a, 0), cnp.PyArray_DIM(b, 0 if is_transposed else 1)]
    cdef Py_ssize_t inner = cnp.PyArray_DIM(a, 1), products = shape[0] * shape[1] * inner
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(b), panels, units
    cdef bint is_thin = shape[0] < LEAST or shape[1] < LEAST
    if (
        products > (_TINY if is_thin else _LARGEST)
        or not _is_supported(a, cnp.PyArray_TYPE(b))
        or not cnp.PyArray_ISBEHAVED_RO(b)
        or shape[1] == 0
    ):
        return None
    if out is None:
        out = new_array(2, shape, cnp.PyArray_TYPE(a))
    work.rows, work.inner, work.columns = shape[0], inner, shape[1]
    work.a_row, work.a_inner = cnp.PyArray_STRIDE(a, 0) // itemsize, cnp.PyArray_STRIDE(a, 1) // itemsize
    work.b_inner = cnp.PyArray_STRIDE(b, 1 if is_transposed else 0) // itemsize
    work.b_column = cnp.PyArray_STRIDE(b, 0 if is_transposed else 1) // itemsize
    work.a = cnp.PyArray_DATA(a)
    work.b = cnp.PyArray_DATA(b)
    work.out = cnp.PyArray_DATA(out)
    work.bias = NULL if bias is None else cnp.PyArray_DATA(bias)
    work.is_rectified = is_rectified
    work.function = function
    work.mapped = work.out if mapped is None else cnp.PyArray_DATA(mapped)
    panels = ceil_of(shape[1] * itemsize, panel_bytes)
    work.rows_of_unit = shape[0]
    while work.rows_of_unit > LEAST_ROWS and panels * ceil_of(shape[0], work.rows_of_unit) < UNITS:
        work.rows_of_unit = ceil_of(work.rows_of_unit, 2 * LEAST) * LEAST
    units = panels * ceil_of(shape[0], work.rows_of_unit)
    run_units(
        _kernels.whole[cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT], &work, units,
        units if products <= _SMALL else max(1, _AT_ONCE * units // products),
        cnp.PyArray_NBYTES(out),
    )
    return out


cdef bint _is_supported(cnp.ndarray a, int number) noexcept:
    """Return whether the kernels can read `a` as first factor, with a second one of this type number."""
    return (
        # Below AVX2, NumPy's BLAS uses better instructions than these kernels.
        simd_level >= level_avx2
        and cnp.PyArray_TYPE(a) == number
        and (number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE)
        and cnp.PyArray_ISBEHAVED_RO(a)
        and cnp.PyArray_DIM(a, 0) > 0
        and cnp.PyArray_DIM(a, 1) > 0
        and (
            cnp.PyArray_STRIDE(a, 1) == cnp.PyArray_ITEMSIZE(a)
            or cnp.PyArray_STRIDE(a, 0) == cnp.PyArray_ITEMSIZE(a)
        )
    )


cdef inline Py_ssize_t _size(cnp.ndarray x, int ndim, int i) noexcept:
    """Return the size of dimension `i` of `ndim`; missing leading dimensions of `x` have size 1."""
    cdef int own = i - ndim + cnp.PyArray_NDIM(x)
    return 1 if own < 0 else cnp.PyArray_DIM(x, own)


cdef inline Py_ssize_t _step(cnp.ndarray x, int ndim, int i) noexcept:
    """Return the stride in elements of dimension `i` of `ndim`; 0 if it is missing or has size 1."""
    cdef int own = i - ndim + cnp.PyArray_NDIM(x)
    if own < 0 or cnp.PyArray_DIM(x, own) == 1:
        return 0
    return cnp.PyArray_STRIDE(x, own) // cnp.PyArray_ITEMSIZE(x)
