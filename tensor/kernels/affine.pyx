"""Affine maps: a matrix product, then the bias and a ReLU in one pass over its result.

Call them inside a kernel context (`tensor.kernels.context`). Otherwise NumPy warns about floating-point flags
that its BLAS has set. Some BLAS set them even if all results are finite (OpenBLAS 0.3.23, according to NumPy
issue 24067).
"""

cimport numpy as cnp

from tensor.kernels.axes cimport Kernel, kind_of, new_array, run_units
from tensor.kernels.elementwise cimport Loop, UnaryKernel
from tensor.kernels.products cimport finished_product, product, product_of_stacks
from tensor.kernels.simd cimport simd_level
from tensor.kernels.threads cimport parallel_for

import numpy as np

from tensor.kernels.special import relu_of

cnp.import_array()

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

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    Py_ssize_t ceil_of(Py_ssize_t n, Py_ssize_t by)

cdef const Affine* _kernels = affine_kernels_of(simd_level)
cdef object _matmul = np.matmul
cdef object _add = np.add

cdef enum:
    MAX_DIMENSIONS = 32  # of an input whose leading dimensions are joined

# For `_thin`: the most outputs and the fewest inputs of a map with few outputs; the fewest products of any.
cdef Py_ssize_t _MAX_OUTPUTS = 16, _LONG_ROW = 1024, _FEW_PRODUCTS = 4096

# The number of elements that a thread processes at a time: about 5 us.
cdef Py_ssize_t _AT_ONCE = 1 << 15


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
    cdef cnp.npy_intp[MAX_DIMENSIONS] shape
    cdef int i, ndim = cnp.PyArray_NDIM(x)
    if ndim > MAX_DIMENSIONS:
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
        or ndim > MAX_DIMENSIONS
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
    cdef cnp.npy_intp[MAX_DIMENSIONS] shape
    cdef cnp.ndarray out
    cdef Kernel kernel
    map.inner, map.columns = cnp.PyArray_DIM(weight, 1), cnp.PyArray_DIM(weight, 0)
    if map.inner > most_inputs and (map.columns > _MAX_OUTPUTS or map.inner < _LONG_ROW):
        return None
    if (
        ndim < 2
        or ndim > MAX_DIMENSIONS
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
        kernel = _kernels.few_inputs[kind_of(x)]
        units = ceil_of(map.rows, rows_of_few_inputs) * ceil_of(map.columns, columns_of_few_inputs)
        grain = _AT_ONCE // (min(map.rows, rows_of_few_inputs) * min(map.columns, columns_of_few_inputs))
    else:
        kernel = _kernels.few_outputs[kind_of(x)]
        units = ceil_of(map.rows, rows_of_few_outputs)
        grain = _AT_ONCE // (rows_of_few_outputs * map.inner)
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
    kernel = _kernels.finish_single if is_single else _kernels.finish_double
    if size <= _AT_ONCE:
        kernel(&finish, 0, size // columns)
        return 0
    with nogil:  # `out` is new, so no other code uses it; the caller keeps `bias` alive
        parallel_for(size // columns, max(1, _AT_ONCE // columns), kernel, &finish)
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
