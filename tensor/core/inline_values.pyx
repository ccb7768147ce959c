"""Store up to 16 bytes of values inside the tensor object, and create the array when it is first needed.

An array needs three blocks of memory (object, shape, data), and its buffer a fourth: 290 bytes to store 4
bytes. Most small tensors only take part in arithmetic, and never need an array.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from tensor.memory.allocator cimport count_small, is_counted, report_overhead_by, uncount_small

from tensor.memory.limits import out_of_memory

cnp.import_array()

cdef enum:
    PLAIN_DTYPES = 24  # NumPy's type numbers up to float16; dtypes of other libraries have larger ones

# NumPy's built-in dtypes by type number. Never freed.
cdef PyObject* _plain_dtypes[PLAIN_DTYPES]
for _number in range(PLAIN_DTYPES):
    _dtype = cnp.PyArray_DescrFromType(_number)
    Py_INCREF(_dtype)
    _plain_dtypes[_number] = <PyObject*>_dtype

cdef int64_t _bytes_inline = 0


cdef inline bint _is_inlinable(cnp.ndarray array):
    """Return whether the tensor can store the values of the new `array` inline."""
    cdef Py_ssize_t nbytes = cnp.PyArray_NBYTES(array)
    cdef int number = cnp.PyArray_TYPE(array)
    if nbytes == 0 or nbytes > MAX_INLINE_BYTES or cnp.PyArray_NDIM(array) > MAX_INLINE_DIMS:
        return False
    # A dtype with the same number can still differ, for example in byte order.
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


cdef void mark_moved(InlineValues* values) noexcept:
    global _bytes_inline
    _bytes_inline -= values.nbytes
    values.nbytes = 0


cdef void free_values(InlineValues* values) noexcept:
    uncount_small(values.nbytes, False)
    mark_moved(values)


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
    cdef cnp.npy_intp dims[MAX_INLINE_DIMS]
    cdef cnp.ndarray array = None
    cdef int i
    for i in range(values.ndim):
        dims[i] = values.dims[i]
    try:
        array = cnp.PyArray_SimpleNew(values.ndim, dims, values.type_number)
    except MemoryError:
        pass  # raise the error below, without this one as context: its traceback would keep arrays alive
    if array is None:
        raise out_of_memory()
    memcpy(cnp.PyArray_DATA(array), &values.data, values.nbytes)
    return array


cdef int64_t _less_overhead() noexcept nogil:
    # Subtract inline values: they count as live, and again in the size of the tensor object.
    return -_bytes_inline


report_overhead_by(_less_overhead)
