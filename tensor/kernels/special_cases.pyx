"""NumPy functions with corrected results for infinities, nan, zeros and bools."""

cimport numpy as cnp
from libc.math cimport INFINITY, fabs

import numpy as np

from tensor.kernels import exponentials

cnp.import_array()

cdef object _divide_down = np.floor_divide
# From this many elements on, release the GIL while checking them.
cdef Py_ssize_t _MIN_SIZE_NOGIL = 1 << 14

ctypedef fused real:
    float
    double


def expm1(cnp.ndarray x not None):
    """Return exp(x) - 1, precise near 0. For complex zeros, infinities and nan, subtract 1 from np.exp(x).

    np.expm1 returns nan for most of these values.
    """
    out = np.expm1(x)
    if not cnp.PyArray_ISCOMPLEX(x):
        return out
    special = ~np.isfinite(x) | np.equal(x, 0)
    return np.where(special, np.exp(x) - 1, out) if special.any() else out


def conjugate(cnp.ndarray x not None):
    """Return the complex conjugate as a copy in the dtype of `x`. NumPy's function returns int8 for bools."""
    return x.copy() if cnp.PyArray_TYPE(x) == cnp.NPY_BOOL else np.conjugate(x)


def floor_divide(x1, x2, out=None):
    """Return the quotient rounded down. Infinity over finite is infinity, finite over infinity is 0.

    NumPy returns nan for infinity over finite, and -1 for finite over infinity if the signs differ.
    """
    if not _has_infinity(x1) and not _has_infinity(x2):
        return _divide_down(x1, x2) if out is None else _divide_down(x1, x2, out)
    # If exactly one operand is infinite, the plain quotient needs no rounding.
    is_one_infinite = np.logical_xor(_are_infinite(x1), _are_infinite(x2))
    found = np.where(is_one_infinite, np.divide(x1, x2), _divide_down(x1, x2))
    if out is None:
        return found
    np.copyto(out, found, casting="same_kind")
    return out


# Compiled, because for a few elements two passes of NumPy take three times as long as the division.
cdef bint _has_infinity(object x) except -1:
    cdef cnp.ndarray array
    if not isinstance(x, cnp.ndarray):
        return isinstance(x, (float, np.floating)) and fabs(<double>x) == INFINITY
    array = <cnp.ndarray>x
    if not cnp.PyArray_ISFLOAT(array):
        return False
    if cnp.PyArray_ISBEHAVED_RO(array) and cnp.PyArray_ISONESEGMENT(array):
        if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT:
            return _is_any_infinite(<const float*>cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array))
        if cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE:
            return _is_any_infinite(<const double*>cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array))
    return bool(np.isinf(array).any())


cdef bint _is_any_infinite(const real* x, Py_ssize_t count) noexcept:
    if count < _MIN_SIZE_NOGIL:
        return _find_infinity(x, count)
    with nogil:  # the caller's array keeps the memory alive
        return _find_infinity(x, count)


cdef bint _find_infinity(const real* x, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    cdef real infinity = INFINITY
    cdef int found = 0
    for i in range(count):  # without a break, so that the compiler vectorises it
        found |= (x[i] == infinity) | (x[i] == -infinity)
    return found


cdef object _are_infinite(object x):
    if isinstance(x, cnp.ndarray):
        return np.isinf(x) if cnp.PyArray_ISFLOAT(<cnp.ndarray>x) else np.False_
    return np.bool_(_has_infinity(x))


def tanh(cnp.ndarray x not None):
    """Return the hyperbolic tangent. If the real part of `x` is infinite, the imaginary part is a zero.

    This zero has the sign of the imaginary part of `x`. In NumPy, as in C, it has the sign of the sine of
    twice the imaginary part.
    """
    out = exponentials.tanh(x)
    if not cnp.PyArray_ISCOMPLEX(x):
        return out
    imaginary = np.imag(x)
    special = np.isinf(np.real(x)) & np.isfinite(imaginary)
    if special.any():
        out = np.array(out)
        np.imag(out)[special] = np.copysign(0.0, imaginary[special])
    return out
