"""Values so few that they lie in a tensor itself, until somebody asks for its array.

NumPy's array object, its shape and its data are three blocks of memory, a buffer is a fourth: 290 bytes to
hold 4. Of a small tensor most often nobody but arithmetic wants to know more than the number.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from tensor.memory.allocator cimport count_small, is_counted, report_overhead_by, uncount_small

from tensor.memory.limits import out_of_memory

cnp.import_array()

cdef enum:
    PLAIN_DTYPES = 24  # up to float16; larger numbers are dtypes of other libraries

# NumPy's own dtypes by their numbers; never freed.
cdef PyObject* _plain_dtypes[PLAIN_DTYPES]
for _number in range(PLAIN_DTYPES):
    _dtype = cnp.PyArray_DescrFromType(_number)
    Py_INCREF(_dtype)
    _plain_dtypes[_number] = <PyObject*>_dtype

cdef int64_t _bytes_inline = 0


cdef inline bint _is_inlinable(cnp.ndarray array):
    """Tell whether the values of the new `array` can be stored without the array."""
    cdef Py_ssize_t nbytes = cnp.PyArray_NBYTES(array)
    cdef int number = cnp.PyArray_TYPE(array)
    if nbytes == 0 or nbytes > MOST_INLINE_BYTES or cnp.PyArray_NDIM(array) > MOST_INLINE_DIMS:
        return False
    # A dtype may have more than its number, for example a byte order.
    if number >= PLAIN_DTYPES or <PyObject*>cnp.PyArray_DESCR(array) != _plain_dtypes[number]:
        return False
    if not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_OWNDATA):
        return False
    return not is_counted(array)


cdef bint take_values(InlineValues* values, cnp.ndarray array) except -1:
    cdef Py_ssize_t nbytes = cnp.PyArray_NBYTES(array)
    cdef int i
    if not _is_inlinable(array):
        return False
    count_inline(nbytes)
    memcpy(&values.data, cnp.PyArray_DATA(array), nbytes)
    values.type_number = cnp.PyArray_TYPE(array)
    values.ndim = cnp.PyArray_NDIM(array)
    for i in range(cnp.PyArray_NDIM(array)):
        values.dims[i] = cnp.PyArray_DIM(array, i)
    values.nbytes = nbytes
    return True


cdef int count_inline(Py_ssize_t nbytes) except -1:
    global _bytes_inline
    if not count_small(nbytes):
        raise out_of_memory()
    _bytes_inline += nbytes
    return 0


cdef void hand_on(InlineValues* values) noexcept:
    global _bytes_inline
    _bytes_inline -= values.nbytes
    values.nbytes = 0


cdef void let_go(InlineValues* values) noexcept:
    uncount_small(values.nbytes, False)
    hand_on(values)


cdef object dtype_of(InlineValues* values):
    return <object>_plain_dtypes[values.type_number]


cdef tuple shape_of(InlineValues* values):
    cdef list dims
    cdef int i
    if values.ndim == 1:
        return (values.dims[0],)
    dims = []
    for i in range(values.ndim):
        dims.append(values.dims[i])
    return tuple(dims)


cdef cnp.ndarray array_with(InlineValues* values):
    cdef cnp.npy_intp dims[MOST_INLINE_DIMS]
    cdef cnp.ndarray array = None
    cdef int i
    for i in range(values.ndim):
        dims[i] = values.dims[i]
    try:
        array = cnp.PyArray_SimpleNew(values.ndim, dims, values.type_number)
    except MemoryError:
        pass  # not as the context of our error: its traceback would hold arrays
    if array is None:
        raise out_of_memory()
    memcpy(cnp.PyArray_DATA(array), &values.data, values.nbytes)
    return array


cdef int64_t _less_overhead() noexcept nogil:
    # They lie in the tensor, whose size is counted as overhead; they themselves are counted as live.
    return -_bytes_inline


report_overhead_by(_less_overhead)
