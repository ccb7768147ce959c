"""Products: of matrices and of stacks of small ones, affine maps, and of a sparse matrix along an axis.

Call the functions inside a kernel context (`tensor.kernels.running`). Otherwise NumPy warns about
floating-point flags that its BLAS has set. Some BLAS set them even if all results are finite (OpenBLAS
0.3.23, according to NumPy issue 24067).
"""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tensor.kernels.elementwise cimport Loop, UnaryKernel
from tensor.kernels.running cimport (
    Axis,
    Kernel,
    ceil_of,
    kind_of,
    new_array,
    one_axis,
    parallel_for,
    run_units,
    simd_level,
)

import numpy as np

from tensor.kernels.special import relu_of

cnp.import_array()


# --- Matrix products ----------------------------------------------------------------------------------------
#
# Matrix products, and functions of their results in the same pass, on the thread pool.

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
    struct Products:
        Kernel stacked[2]
        Kernel whole[2]
    const Products* products_kernels_of(int level)
    const int level_avx2

cdef const Products* _products = products_kernels_of(simd_level)
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
        _products.stacked[0 if number == cnp.NPY_FLOAT else 1], &work, count, max(1, _AT_ONCE // products),
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
        _products.whole[cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT], &work, units,
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


# --- Affine maps --------------------------------------------------------------------------------------------
#
# Affine maps: a matrix product, then the bias and a ReLU in one pass over its result.
#
# Call them inside a kernel context (`tensor.kernels.running`). Otherwise NumPy warns about floating-point
# flags that its BLAS has set. Some BLAS set them even if all results are finite (OpenBLAS 0.3.23, according
# to NumPy issue 24067).

cdef extern from "tensor/kernels/affine.h" namespace "disposescope::kernels" nogil:
    struct Finish:
        void* out
        const void* bias
        Py_ssize_t columns
        bint is_rectified
    struct ThinMap:
        Py_ssize_t rows
        Py_ssize_t inner
        Py_ssize_t columns
        const void* x
        const void* weight
        const void* bias
        void* out
        bint is_rectified
    const Py_ssize_t most_inputs
    const Py_ssize_t rows_of_few_inputs
    const Py_ssize_t columns_of_few_inputs
    const Py_ssize_t rows_of_few_outputs
    struct Affine:
        void (*finish_single)(void* finish, Py_ssize_t start, Py_ssize_t end) noexcept nogil
        void (*finish_double)(void* finish, Py_ssize_t start, Py_ssize_t end) noexcept nogil
        Kernel few_inputs[2]
        Kernel few_outputs[2]
    const Affine* affine_kernels_of(int level)

cdef const Affine* _affine = affine_kernels_of(simd_level)
cdef object _add = np.add

cdef enum:
    MAX_JOINED_DIMENSIONS = 32  # of an input whose leading dimensions are joined

# For `_thin`: the most outputs and the fewest inputs of a map with few outputs; the fewest products of any.
cdef Py_ssize_t _MAX_OUTPUTS = 16, _LONG_ROW = 1024, _FEW_PRODUCTS = 4096

# The number of elements that a thread processes at a time: about 5 us.
cdef Py_ssize_t _ONE_PASS = 1 << 15


cpdef cnp.ndarray affine(cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified):
    """Return ``x @ weight.T + bias`` in a new array. If `is_rectified`, set negative values to 0.

    Raises
    ------
    ValueError
        If the shapes do not match.
    """
    cdef cnp.ndarray out
    _require_fitting(x, weight, bias)
    out = _thin(x, weight, bias, is_rectified)
    if out is not None:
        return out
    out = _in_one_pass(x, weight, bias, is_rectified, NULL, None)
    if out is not None:
        return out
    out = _product(x, weight)
    if bias is None and not is_rectified:
        return out
    if _is_plain(out) and (bias is None or _is_alike(<cnp.ndarray>bias, out)):
        _finish(out, bias, is_rectified)
        return out
    if bias is not None:
        if cnp.PyArray_EquivArrTypes(<cnp.ndarray>bias, out):
            _add(out, bias, out)
        else:
            out = np.asarray(out + bias)
    if is_rectified:
        relu_of(out, out)
    return out


cdef tuple affine_then(cnp.ndarray x, cnp.ndarray weight, object bias, UnaryKernel function, bint keeps):
    cdef cnp.ndarray before, out = None
    cdef Loop loop = function.loop_for(cnp.PyArray_TYPE(x))
    _require_fitting(x, weight, bias)
    if loop == NULL or not _is_alike(weight, x) or not (bias is None or _is_alike(<cnp.ndarray>bias, x)):
        return None
    before = _thin(x, weight, bias, False)
    if before is None:
        if keeps:
            out = _new_result(x, weight)
        before = _in_one_pass(x, weight, bias, False, loop, out)
        if before is not None:
            return (before, out) if keeps else (None, before)
        out = None  # ends its memory before the product needs more
        before = affine(x, weight, bias, False)
    out = function.run(before, None if keeps else before)
    if out is None:
        return None
    return before if keeps else None, out


cdef int _require_fitting(cnp.ndarray x, cnp.ndarray weight, object bias) except -1:
    cdef int ndim = cnp.PyArray_NDIM(x)
    if (
        cnp.PyArray_NDIM(weight) != 2
        or ndim == 0
        or cnp.PyArray_DIM(x, ndim - 1) != cnp.PyArray_DIM(weight, 1)
    ):
        raise ValueError(
            "the weight has shape (out_features, in_features) = "
            f"{(<object>weight).shape}, and the input's last dimension must be in_features; reshape the "
            "input, or build the layer with other sizes"
        )
    if bias is not None and not _is_one_each(<cnp.ndarray?>bias, cnp.PyArray_DIM(weight, 0)):
        raise ValueError(
            f"the bias must have shape {(<object>weight).shape[:1]}, one value for each output feature, not "
            f"{bias.shape}"
        )
    return 0


cdef cnp.ndarray _new_result(cnp.ndarray x, cnp.ndarray weight):
    cdef cnp.npy_intp[MAX_JOINED_DIMENSIONS] shape
    cdef int i, ndim = cnp.PyArray_NDIM(x)
    if ndim > MAX_JOINED_DIMENSIONS:
        return None
    for i in range(ndim - 1):
        shape[i] = cnp.PyArray_DIM(x, i)
    shape[ndim - 1] = cnp.PyArray_DIM(weight, 0)
    return new_array(ndim, shape, cnp.PyArray_TYPE(x))


cdef cnp.ndarray _in_one_pass(
    cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified, Loop function, cnp.ndarray mapped
):
    """Return the result of `finished_product`, or None if a BLAS is faster. The caller checks shapes."""
    cdef int ndim = cnp.PyArray_NDIM(x)
    cdef cnp.ndarray out
    if (
        ndim < 2
        or ndim > MAX_JOINED_DIMENSIONS
        or (ndim > 2 and (not _is_plain(x) or cnp.PyArray_SIZE(x) == 0))
        or not (bias is None or _is_alike(<cnp.ndarray>bias, weight))
    ):
        return None
    if ndim == 2:
        return finished_product(x, weight, True, bias, is_rectified, function, mapped)
    # One product over the joined dimensions: NumPy would compute several.
    *sizes, inner = (<object>x).shape
    x = (<object>x).reshape(-1, inner)
    out = finished_product(x, weight, True, bias, is_rectified, function, mapped)
    return None if out is None else out.reshape(*sizes, cnp.PyArray_DIM(weight, 0))


cdef cnp.ndarray _thin(cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified):
    """Return the result if there are few inputs or few outputs; None for others and unsupported arrays."""
    cdef ThinMap map
    cdef int i, ndim = cnp.PyArray_NDIM(x)
    cdef Py_ssize_t units, grain
    cdef cnp.npy_intp[MAX_JOINED_DIMENSIONS] shape
    cdef cnp.ndarray out
    cdef Kernel kernel
    map.inner, map.columns = cnp.PyArray_DIM(weight, 1), cnp.PyArray_DIM(weight, 0)
    if map.inner > most_inputs and (map.columns > _MAX_OUTPUTS or map.inner < _LONG_ROW):
        return None
    if (
        ndim < 2
        or ndim > MAX_JOINED_DIMENSIONS
        or not _is_plain(x)
        or not _is_alike(weight, x)
        or not (bias is None or _is_alike(<cnp.ndarray>bias, x))
    ):
        return None
    map.rows = 1
    for i in range(ndim - 1):
        shape[i] = cnp.PyArray_DIM(x, i)
        map.rows *= shape[i]
    shape[ndim - 1] = map.columns
    if map.rows * map.columns * map.inner < _FEW_PRODUCTS:
        return None
    out = new_array(ndim, shape, cnp.PyArray_TYPE(x))
    map.x = cnp.PyArray_DATA(x)
    map.weight = cnp.PyArray_DATA(weight)
    map.bias = NULL if bias is None else cnp.PyArray_DATA(<cnp.ndarray>bias)
    map.out = cnp.PyArray_DATA(out)
    map.is_rectified = is_rectified
    if map.inner <= most_inputs:
        kernel = _affine.few_inputs[kind_of(x)]
        units = ceil_of(map.rows, rows_of_few_inputs) * ceil_of(map.columns, columns_of_few_inputs)
        grain = _ONE_PASS // (min(map.rows, rows_of_few_inputs) * min(map.columns, columns_of_few_inputs))
    else:
        kernel = _affine.few_outputs[kind_of(x)]
        units = ceil_of(map.rows, rows_of_few_outputs)
        grain = _ONE_PASS // (rows_of_few_outputs * map.inner)
    run_units(kernel, &map, units, max(1, grain), cnp.PyArray_NBYTES(x) + cnp.PyArray_NBYTES(out))
    return out


cdef inline bint _is_one_each(cnp.ndarray bias, Py_ssize_t count) noexcept:
    return cnp.PyArray_NDIM(bias) == 1 and cnp.PyArray_DIM(bias, 0) == count


cdef inline bint _is_plain(cnp.ndarray array) noexcept:
    """Return whether the loops here support `array`: C-contiguous float32 or float64."""
    cdef int number = cnp.PyArray_TYPE(array)
    return (number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE) and cnp.PyArray_ISCARRAY_RO(array)


cdef inline bint _is_alike(cnp.ndarray array, cnp.ndarray other) noexcept:
    return _is_plain(array) and cnp.PyArray_TYPE(array) == cnp.PyArray_TYPE(other)


cdef cnp.ndarray _product(cnp.ndarray x, cnp.ndarray weight):
    cdef cnp.ndarray by = cnp.PyArray_SwapAxes(weight, 0, 1)
    if cnp.PyArray_NDIM(x) == 2:
        return product(x, by)
    if cnp.PyArray_NDIM(x) < 2 or not _is_plain(x) or not _is_alike(weight, x) or cnp.PyArray_SIZE(x) == 0:
        result = _matmul_of_stacks(x, by)
        return <cnp.ndarray>result if type(result) is cnp.ndarray else np.asarray(result)
    # One product over the joined dimensions: NumPy would compute several.
    *sizes, inner = (<object>x).shape
    return product((<object>x).reshape(-1, inner), by).reshape(*sizes, cnp.PyArray_DIM(weight, 0))


cdef object _matmul_of_stacks(cnp.ndarray a, cnp.ndarray b):
    """Return ``np.matmul(a, b)``, with a shortcut for empty results.

    NumPy iterates over all matrices of a stack, even over 2**40 matrices without elements.
    """
    if cnp.PyArray_SIZE(a) != 0 and cnp.PyArray_SIZE(b) != 0:
        return _matmul(a, b)
    try:
        sizes = np.broadcast_shapes(_sizes_of_stack(a), _sizes_of_stack(b))
    except ValueError:
        return _matmul(a, b)  # raises the error for shapes that do not match
    # Multiply one matrix of each stack, to get the dtype and the last sizes, and to check them.
    first = slice(1)
    one = _matmul(a[(first,) * len(_sizes_of_stack(a))], b[(first,) * len(_sizes_of_stack(b))])
    shape = sizes + one.shape[len(sizes):]
    return np.empty(shape, one.dtype) if 0 in shape else _matmul(a, b)


cdef tuple _sizes_of_stack(cnp.ndarray a):
    return (<object>a).shape[:max(cnp.PyArray_NDIM(a) - 2, 0)]


cdef int _finish(cnp.ndarray out, object bias, bint is_rectified) except -1:
    cdef Finish finish
    cdef int last = cnp.PyArray_NDIM(out) - 1
    cdef Py_ssize_t columns = cnp.PyArray_DIM(out, last), size = cnp.PyArray_SIZE(out)
    cdef bint is_single = cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT
    if size == 0:
        return 0
    finish.out = cnp.PyArray_DATA(out)
    finish.bias = NULL if bias is None else cnp.PyArray_DATA(<cnp.ndarray>bias)
    finish.columns = columns
    finish.is_rectified = is_rectified
    kernel = _affine.finish_single if is_single else _affine.finish_double
    if size <= _ONE_PASS:
        kernel(&finish, 0, size // columns)
        return 0
    with nogil:  # `out` is new, so no other code uses it; the caller keeps `bias` alive
        parallel_for(size // columns, max(1, _ONE_PASS // columns), kernel, &finish)
    return 0


def matrix_product(a, b):
    """Return ``np.matmul(a, b)``, faster for float32 and float64 in most shapes."""
    cdef cnp.ndarray x, weight, out
    if type(a) is not cnp.ndarray or type(b) is not cnp.ndarray:
        return _matmul(a, b)
    x = a
    weight = b
    if cnp.PyArray_NDIM(x) > 2 or cnp.PyArray_NDIM(weight) > 2:
        out = product_of_stacks(x, weight)
        return _matmul_of_stacks(x, weight) if out is None else out
    if (
        cnp.PyArray_NDIM(x) != 2
        or cnp.PyArray_NDIM(weight) != 2
        or cnp.PyArray_DIM(x, 1) != cnp.PyArray_DIM(weight, 0)
        or cnp.PyArray_SIZE(x) == 0
    ):
        return _matmul(a, b)
    out = _thin(x, cnp.PyArray_SwapAxes(weight, 0, 1), None, False)
    return product(x, weight) if out is None else out


# --- Derivatives: functions for the table of rules ----------------------------------------------------------


def affine_by_input(xp, g, weight):
    """Return the gradient of the input of an affine map; `g` is the gradient of its output."""
    if g.ndim <= 2:
        return xp.matmul(g, weight)
    *sizes, _ = g.shape
    return xp.reshape(xp.matmul(_rows(xp, g), weight), (*sizes, weight.shape[1]))


def affine_by_weight(xp, g, input):
    """Return the gradient of the weight."""
    if type(g) is cnp.ndarray and cnp.PyArray_NDIM(<cnp.ndarray>g) == 2:
        return product(cnp.PyArray_SwapAxes(<cnp.ndarray>g, 0, 1), input)
    if g.ndim != 2:
        g, input = _rows(xp, g), _rows(xp, input)
    return xp.matmul(g.mT, input)


def affine_by_bias(xp, g):
    """Return the gradient of the bias, not yet summed over rows."""
    return g if g.ndim <= 2 else _rows(xp, g)


cdef object _rows(object xp, object x):
    """Return `x` with all dimensions but the last joined, even if it is empty."""
    cdef Py_ssize_t rows = 1
    *sizes, columns = x.shape
    for n in sizes:
        rows *= <Py_ssize_t>n
    return xp.reshape(x, (rows, columns))


# --- Sparse matrices ----------------------------------------------------------------------------------------
#
# Product of a sparse matrix and an array along one axis, on the thread pool.
#
# ``AxisMatrix`` (`tensor.kernels.axis_matrices`) creates the matrices. Entries of a row are summed in
# order, so results do not depend on the number of threads. Call it inside a kernel context
# (`tensor.kernels.running`).

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

cdef const Sparse* _sparse = sparse_kernels_of(simd_level)

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
            _sparse.along[kind], &work, seen.before, max(PIECE // (each * count), 1), cnp.PyArray_NBYTES(out)
        )
    else:
        run_units(
            _sparse.across[kind], &work, seen.before * count, max(PIECE // each, 1), cnp.PyArray_NBYTES(out)
        )
    return out
