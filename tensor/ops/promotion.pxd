"""Promotion: the common dtype to which an op casts its operands. For `cimport`."""

cimport numpy as cnp


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
