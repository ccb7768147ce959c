"""Promotion of operands, and bfloat16, which kernels compute with as float32. For `cimport`."""

cimport numpy as cnp


cdef extern from *:
    """
    /* NumPy gives dtypes of other libraries numbers from 256 on. Tensors support one of them: bfloat16. */
    #define DISPOSESCOPE_FIRST_OF_OTHERS 256
    """
    const int FIRST_OF_OTHERS "DISPOSESCOPE_FIRST_OF_OTHERS"


cdef inline bint is_bfloat16(object x) noexcept:
    """Return whether `x` is an array of bfloat16."""
    return isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray>x) >= FIRST_OF_OTHERS


cdef inline bint is_inexact(cnp.ndarray x) noexcept:
    """Return whether `x` has a floating or complex dtype, including bfloat16."""
    return cnp.PyArray_ISFLOAT(x) or cnp.PyArray_ISCOMPLEX(x) or cnp.PyArray_TYPE(x) >= FIRST_OF_OTHERS


# Return `x` as float32 if it is an array of bfloat16, else `x` itself.
cdef object widened(object x)
# Return the float32 array `x` with each value rounded to the nearest bfloat16. `dtype` is bfloat16.
cdef cnp.ndarray narrowed(cnp.ndarray x, object dtype)
# Return `x` rounded to bfloat16, as a float, if it is a Python number, else `x` itself.
cdef object rounded(object x)
# Return the result of a kernel (an array or a tuple) with each float32 array as bfloat16 (`dtype`).
cdef object narrowed_result(object x, object dtype)
# Return `kernel`, or a wrapper that computes in float32 if one of `operands` is an array of bfloat16.
cdef object wide_for(object kernel, operands)


cdef enum Promotion:
    # NumPy's own rules, for ops with bool results and bitwise ops.
    BY_NUMPY
    # If the kinds differ, the result has the dtype of the operand of the higher kind.
    BY_KIND
    # The same, and integers become floats.
    TO_FLOATS


cdef Promotion promotion_of(object kernel, int count)
cdef bint needs_floats(Promotion promotion, cnp.ndarray x) noexcept
cdef bint needs_promotion(Promotion promotion, object a, object b) noexcept
# Return both operands, cast as `promotion` requires. An operand that changes becomes a new array.
cdef tuple promoted_pair(Promotion promotion, object a, object b)
