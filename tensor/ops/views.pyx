"""Views in another shape."""

cimport numpy as cnp
from cpython.ref cimport PyObject

from tensor.core.storage cimport array_of
from tensor.core.tensor cimport TensorCore
from tensor.ops.dispatch cimport over
from tensor.tape.nodes cimport Rule

from math import prod

from tensor._errors import InvalidArgumentError
from tensor.core.dims import infer_sizes, sizes_of
from tensor.kernels.context import run_kernel
from tensor.tape.rules import RULES

cnp.import_array()

cdef extern from "Python.h":
    long PyLong_AsLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    MAX_SIZES = 16

cdef Rule _RESHAPE = RULES["reshape"]


def reshaped(TensorCore x not None, tuple shape not None, copy):
    """Return `x` reshaped. `shape` has the arguments of a call such as ``f(2, 3)`` or ``f((2, 3))``.

    If `copy` is False, raise an error instead of copying.
    """
    cdef cnp.ndarray array = array_of(x), out
    if array is None:
        x._raise_disposed()
    if len(shape) == 1 and type(shape[0]) is tuple:
        out = _reshaped_at_once(array, <tuple>shape[0])
    else:
        out = _reshaped_at_once(array, shape)
    if out is None:
        out = run_kernel(array.reshape, sizes_for((<object>array).shape, shape))
        if copy is False and not _is_view(out, array):
            _raise_without_view(array, out)
    return over(x, array, out, _RESHAPE)


cdef cnp.ndarray _reshaped_at_once(cnp.ndarray array, tuple sizes):
    """Return a view of a contiguous, non-empty `array` for at most 16 int `sizes` that fit, else None."""
    cdef cnp.npy_intp found[MAX_SIZES]
    cdef cnp.PyArray_Dims shape
    cdef Py_ssize_t i, n, unknown = -1, known = 1, count = cnp.PyArray_SIZE(array)
    cdef int overflow = 0
    shape.ptr = found
    shape.len = <int>len(sizes)
    if len(sizes) > MAX_SIZES or count == 0 or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        return None
    for i in range(shape.len):
        size = sizes[i]
        if type(size) is not int:
            return None
        n = PyLong_AsLongAndOverflow(size, &overflow)
        if n == -1 and overflow == 0 and unknown < 0:
            unknown = i
        elif n < 1 or known > count // n:
            return None
        else:
            known *= n
            found[i] = n
    if unknown >= 0:
        if count % known != 0:
            return None
        found[unknown] = count // known
    elif known != count:
        return None
    return cnp.PyArray_Newshape(array, &shape, cnp.NPY_CORDER)


def _raise_without_view(array, out):
    strides = tuple(n // array.itemsize for n in array.strides)
    raise InvalidArgumentError(
        f"shape {array.shape} with strides {strides} has no view of shape {out.shape}: its "
        "elements are in another order in memory. Use x.reshape(...), which copies if necessary, or "
        "x.contiguous() before"
    )


cdef bint _is_view(cnp.ndarray out, cnp.ndarray array) noexcept:
    """Return whether `out`, which NumPy computed from `array`, is a view of its memory and not a copy."""
    cdef PyObject* base = <PyObject*>cnp.PyArray_BASE(out)
    return base == <PyObject*>array or (base != NULL and base == <PyObject*>cnp.PyArray_BASE(array))


def sizes_for(before, shape):
    """Return the sizes in the arguments `shape` of a call, with -1 replaced by the size that fits."""
    return infer_sizes("reshape", sizes_of("reshape", shape), prod(before), before)
