"""Arrays of bfloat16, which are computed with as float32. For `cimport`."""

cimport numpy as cnp


cdef extern from *:
    """
    /* NumPy numbers the dtypes of other libraries from here on. Tensors hold one of them: bfloat16. */
    #define DISPOSESCOPE_FIRST_OF_OTHERS 256
    """
    const int FIRST_OF_OTHERS "DISPOSESCOPE_FIRST_OF_OTHERS"


cdef inline bint is_bfloat16(object x) noexcept:
    """Tell whether `x` is an array of bfloat16."""
    return isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray>x) >= FIRST_OF_OTHERS


cdef inline bint is_inexact(cnp.ndarray x) noexcept:
    """Tell whether `x` is floating or complex."""
    return cnp.PyArray_ISFLOAT(x) or cnp.PyArray_ISCOMPLEX(x) or cnp.PyArray_TYPE(x) >= FIRST_OF_OTHERS


# The same values as float32; `x` itself where it is no array of bfloat16.
cdef object widened(object x)
# Float32 values, each rounded to the nearest of `dtype`, which is bfloat16.
cdef cnp.ndarray narrowed(cnp.ndarray x, object dtype)
# What a kernel gave, a tuple too, with bfloat16, `dtype`, for each float32.
cdef object narrowed_result(object x, object dtype)
# `kernel`, or what computes it in float32 if one of `operands` is an array of bfloat16.
cdef object wide_for(object kernel, operands)
