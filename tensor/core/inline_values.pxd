"""Values that are stored in the tensor itself, because they are few. For `cimport`."""

cimport numpy as cnp


cdef enum:
    MOST_INLINE_BYTES = 16
    MOST_INLINE_DIMS = 4
    # As `nbytes`: the values are neither here nor in an array, but in a file.
    IN_FILE = 255


cdef union InlineData:
    char bytes[MOST_INLINE_BYTES]
    float floats[4]
    double doubles[2]
    # For a disposed tensor: its first sizes, for errors.
    unsigned int sizes[4]
    # Of a tensor whose values are in a file: a strong reference to what reads them.
    void* filed


# In C order.
cdef struct InlineValues:
    InlineData data
    # 0: no values are stored inline. IN_FILE: none either.
    unsigned char nbytes
    # NumPy's number of the dtype.
    unsigned char type_number
    unsigned char ndim
    # No larger than the number of bytes.
    unsigned char dims[MOST_INLINE_DIMS]


# Take the values of the new `array` and count them, or return False if the array has to be kept. MemoryError
# when they go over the limit.
cdef bint take_values(InlineValues* values, cnp.ndarray array) except -1
# Count values that a tensor will have inline. MemoryError when they go over the limit.
cdef int count_inline(Py_ssize_t nbytes) except -1
# Forget values that moved to an array; their bytes stay live.
cdef void hand_on(InlineValues* values) noexcept
# The same for values that are freed.
cdef void let_go(InlineValues* values) noexcept
# Their dtype and their shape.
cdef object dtype_of(InlineValues* values)
cdef tuple shape_of(InlineValues* values)
# Return a new array with these values, not counted.
cdef cnp.ndarray array_with(InlineValues* values)
