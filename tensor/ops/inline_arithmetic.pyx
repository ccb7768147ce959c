"""Arithmetic on few elements, which are stored inside the tensor objects, without NumPy.

For a few bytes, a call of NumPy takes several times as long as the arithmetic and the new tensor together: it
selects a loop by the dtypes, checks for overlaps and creates an array. This module has sums, differences,
products and quotients of float32 and float64. Operands must have the same dtype, and the same shape or no
dimensions. IEEE 754 defines the results, so they have the same bits as NumPy's. Functions of one operand that
have a compiled kernel call its loop. NumPy computes everything else.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.string cimport memcpy

from tensor.core.inline_values cimport IN_FILE, MAX_INLINE_BYTES, MAX_INLINE_DIMS, InlineValues
from tensor.core.tensor cimport TensorCore, tensor_type
from tensor.kernels.elementwise cimport Loop, Operands, UnaryKernel
from tensor.tape.nodes cimport Rule
from tensor.tape.recording cimport record_inline_binary, record_inline_unary, wrap_inline

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    PyObject* type_of "(PyObject *)Py_TYPE"(object x)
    bint PyFloat_CheckExact(object x)
    bint PyLong_CheckExact(object x)
    long PyLong_AsLongAndOverflow(object x, int* overflow)

# Integers up to this one are exact in float32 and float64.
cdef enum:
    MAX_EXACT = 1 << 24

cdef dict _arithmetics = {
    np.add: ADDITION,
    np.subtract: SUBTRACTION,
    np.multiply: MULTIPLICATION,
    np.divide: DIVISION,
}


cdef Arithmetic arithmetic_of(object kernel):
    return <Arithmetic><int>_arithmetics.get(kernel, NO_ARITHMETIC)


cdef inline InlineValues* _values_of(object x, InlineValues* scratch):
    """Return the values of the tensor `x`, copied to `scratch` if they are in an array; NULL to use NumPy."""
    cdef TensorCore tensor
    cdef cnp.ndarray array
    cdef Py_ssize_t nbytes
    cdef int i
    if type_of(x) != tensor_type:
        return NULL
    tensor = <TensorCore>x
    if tensor.is_donated:
        return NULL
    if tensor.inlined.nbytes != 0:
        return &tensor.inlined if tensor.inlined.nbytes != IN_FILE else NULL
    array = tensor.stored
    if array is None:
        return NULL
    nbytes = cnp.PyArray_NBYTES(array)
    if nbytes == 0 or nbytes > MAX_INLINE_BYTES or cnp.PyArray_NDIM(array) > MAX_INLINE_DIMS:
        return NULL
    if not cnp.PyArray_ISCARRAY_RO(array):
        return NULL
    memcpy(&scratch.data, cnp.PyArray_DATA(array), nbytes)
    scratch.nbytes = nbytes
    scratch.type_number = cnp.PyArray_TYPE(array)
    scratch.ndim = cnp.PyArray_NDIM(array)
    for i in range(scratch.ndim):
        scratch.dims[i] = cnp.PyArray_DIM(array, i)
    return scratch


cdef inline InlineValues* _number_like(object x, InlineValues* like, InlineValues* scratch):
    """Return the Python number `x` in the dtype of `like`, as NumPy converts it; NULL to use NumPy."""
    cdef double number
    cdef long whole
    cdef int overflow = 0
    if PyFloat_CheckExact(x):
        number = <double>x
    elif PyLong_CheckExact(x):
        whole = PyLong_AsLongAndOverflow(x, &overflow)
        if overflow or not -MAX_EXACT <= whole <= MAX_EXACT:
            return NULL
        number = <double>whole
    else:
        return NULL
    if like.type_number == cnp.NPY_FLOAT32:
        scratch.data.floats[0] = <float>number
        scratch.nbytes = sizeof(float)
    elif like.type_number == cnp.NPY_FLOAT64:
        scratch.data.doubles[0] = number
        scratch.nbytes = sizeof(double)
    else:
        return NULL
    scratch.type_number = like.type_number
    scratch.ndim = 0
    return scratch


cdef inline bint _is_same_shape(InlineValues* a, InlineValues* b) noexcept:
    cdef int i
    if a.ndim != b.ndim:
        return False
    for i in range(a.ndim):
        if a.dims[i] != b.dims[i]:
            return False
    return True


cdef fused Real:
    float
    double


@cython.cdivision(True)
cdef inline void _compute(
    Arithmetic arithmetic, Real* a, bint a_step, Real* b, bint b_step, Real* out, Py_ssize_t count
) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        if arithmetic == ADDITION:
            out[i] = a[i * a_step] + b[i * b_step]
        elif arithmetic == SUBTRACTION:
            out[i] = a[i * a_step] - b[i * b_step]
        elif arithmetic == MULTIPLICATION:
            out[i] = a[i * a_step] * b[i * b_step]
        else:
            out[i] = a[i * a_step] / b[i * b_step]


cdef TensorCore compute_inline(Arithmetic arithmetic, Rule rule, object x1, object x2):
    cdef InlineValues scratch1, scratch2, result
    cdef InlineValues* a = _values_of(x1, &scratch1)
    cdef InlineValues* b = _values_of(x2, &scratch2)
    cdef bint a_step, b_step
    cdef Py_ssize_t count
    if a == NULL:
        if b == NULL:
            return None
        a = _number_like(x1, b, &scratch1)
    elif b == NULL:
        b = _number_like(x2, a, &scratch2)
    if a == NULL or b == NULL or a.type_number != b.type_number:
        return None
    if _is_same_shape(a, b) or b.ndim == 0:
        result = a[0]
    elif a.ndim == 0:
        result = b[0]
    else:
        return None
    # An operand without dimensions is one number for all elements.
    a_step, b_step = a.ndim > 0, b.ndim > 0
    if a.type_number == cnp.NPY_FLOAT32:
        count = result.nbytes // sizeof(float)
        _compute(arithmetic, a.data.floats, a_step, b.data.floats, b_step, result.data.floats, count)
    elif a.type_number == cnp.NPY_FLOAT64:
        count = result.nbytes // sizeof(double)
        _compute(arithmetic, a.data.doubles, a_step, b.data.doubles, b_step, result.data.doubles, count)
    else:
        return None
    return wrap_inline(&result, record_inline_binary(rule, x1, x2, &result))


cdef TensorCore compute_inline_unary(UnaryKernel kernel, Rule rule, object x):
    cdef InlineValues scratch, result
    cdef InlineValues* a = _values_of(x, &scratch)
    cdef Operands operands
    cdef Loop loop
    if a == NULL:
        return None
    loop = kernel.loop_for(a.type_number)
    if loop == NULL:
        return None
    result = a[0]
    operands.a = &a.data
    operands.out = &result.data
    loop(&operands, 0, a.nbytes // (sizeof(float) if a.type_number == cnp.NPY_FLOAT32 else sizeof(double)))
    return wrap_inline(&result, record_inline_unary(rule, x, &result))
