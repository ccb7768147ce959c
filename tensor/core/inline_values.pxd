"""Small values stored inside the tensor object. For `cimport`."""

cimport numpy as cnp


cdef enum:
    MAX_INLINE_BYTES = 16
    MAX_INLINE_DIMS = 4
    # Marker for `nbytes`: the values are in a file.
    IN_FILE = 255


cdef union InlineData:
    char bytes[MAX_INLINE_BYTES]
    float floats[4]
    double doubles[2]
    # For a disposed tensor: its first sizes, for error messages.
    unsigned int sizes[4]
    # For values in a file: a strong reference to the `FiledValues` that read them.
    void* filed


# Values in C order.
cdef struct InlineValues:
    InlineData data
    # 0 if there are no inline values; IN_FILE if the values are in a file.
    unsigned char nbytes
    # NumPy's type number.
    unsigned char type_number
    unsigned char ndim
    # Each fits a char, because no size exceeds the number of bytes.
    unsigned char dims[MAX_INLINE_DIMS]


# Copy the values of the new `array` and count them as live. Return False if they can't be stored inline.
# Raise MemoryError if they exceed the memory limit.
cdef bint take_values(InlineValues* values, cnp.ndarray array) except -1
# Count inline values of a tensor as live. Raise MemoryError if they exceed the memory limit.
cdef int count_inline(Py_ssize_t nbytes) except -1
# Clear values that were copied to an array. Their bytes stay counted as live.
cdef void mark_moved(InlineValues* values) noexcept
# Clear values and count their bytes as freed.
cdef void free_values(InlineValues* values) noexcept
cdef object dtype_of(InlineValues* values)
cdef tuple shape_of(InlineValues* values)
# Return a new array with these values. Its memory is not counted.
cdef cnp.ndarray array_with(InlineValues* values)
