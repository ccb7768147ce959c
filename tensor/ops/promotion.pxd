"""What arrays of several dtypes become before they are computed with. For `cimport`."""

cimport numpy as cnp


cdef enum Promotion:
    # A test, or of bits: NumPy's own rules.
    BY_NUMPY
    # Between kinds the higher kind's dtype wins.
    BY_KIND
    # And integers become floats.
    TO_FLOATS


cdef Promotion promotion_of(object kernel, int count)
cdef bint needs_floats(Promotion promotion, cnp.ndarray x) noexcept
cdef bint needs_promotion(Promotion promotion, object a, object b) noexcept
# The two operands as `promotion` makes them: those that must change are new arrays.
cdef tuple promoted_pair(Promotion promotion, object a, object b)
