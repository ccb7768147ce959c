"""Functions for kernels along axes: shapes as an `Axis`, new arrays, and runs on threads."""

cimport numpy as cnp

from tensor.kernels.threads cimport parallel_for
from tensor.memory.allocator cimport enter_pool, is_worth_pooling, leave_pool

cnp.import_array()

cdef extern from "tensor/kernels/axes.h" namespace "disposescope::kernels" nogil:
    cdef struct Cut:
        Py_ssize_t units
        Py_ssize_t grain
    Cut cut_of(Axis axis, Py_ssize_t itemsize, Py_ssize_t elements)


cdef int kind_of(cnp.ndarray a) noexcept:
    cdef int typenum = cnp.PyArray_TYPE(a)
    if not cnp.PyArray_ISCARRAY_RO(a):
        return -1
    return 0 if typenum == cnp.NPY_FLOAT else 1 if typenum == cnp.NPY_DOUBLE else -1


cdef Axis one_axis(cnp.ndarray a, int axis) noexcept:
    return _joined(a, axis, axis + 1)


cdef Axis _joined(cnp.ndarray a, int first, int end) noexcept:
    """Return the dimensions from `first` to `end` as one axis."""
    cdef Axis found = Axis(1, 1, 1)
    cdef int i
    for i in range(first):
        found.before *= cnp.PyArray_DIM(a, i)
    for i in range(first, end):
        found.length *= cnp.PyArray_DIM(a, i)
    for i in range(end, cnp.PyArray_NDIM(a)):
        found.behind *= cnp.PyArray_DIM(a, i)
    return found


cdef Axis some_axes(cnp.ndarray a, object axis) except *:
    cdef Axis found
    cdef int first, end
    if axis is None:
        return _joined(a, 0, cnp.PyArray_NDIM(a))
    if isinstance(axis, int):
        return _joined(a, axis, <int>axis + 1)
    if axis:
        first, end = min(axis), <int>max(axis) + 1
        if end - first == len(axis):
            return _joined(a, first, end)
    found.before = found.behind = 0
    found.length = -1
    return found


cdef cnp.ndarray new_array(int ndim, cnp.npy_intp* shape, int typenum):
    cdef Py_ssize_t nbytes = 8
    cdef int i
    for i in range(ndim):
        nbytes *= shape[i]
    if not is_worth_pooling(nbytes):
        return cnp.PyArray_EMPTY(ndim, shape, typenum, False)
    previous = enter_pool()
    try:
        return cnp.PyArray_EMPTY(ndim, shape, typenum, False)
    finally:
        leave_pool(previous)


cdef cnp.ndarray new_like(cnp.ndarray a):
    return new_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a), cnp.PyArray_TYPE(a))


cdef cnp.ndarray new_reduced(cnp.ndarray a, object axis, bint keepdims, int typenum):
    cdef cnp.npy_intp shape[64]  # the maximum number of dimensions
    cdef int i, ndim = 0, only = -1
    if isinstance(axis, int):
        only = axis
    for i in range(cnp.PyArray_NDIM(a)):
        if i == only or axis is None or (only < 0 and i in <tuple>axis):
            if keepdims:
                shape[ndim] = 1
                ndim += 1
        else:
            shape[ndim] = cnp.PyArray_DIM(a, i)
            ndim += 1
    return new_array(ndim, shape, typenum)


# From this many bytes on, release the GIL, which takes about 50 ns.
cdef Py_ssize_t _LONG = 1 << 15


cdef int run_units(
    Kernel kernel, void* work, Py_ssize_t units, Py_ssize_t grain, Py_ssize_t nbytes
) except -1:
    if nbytes < _LONG and units <= grain:
        if units > 0:
            kernel(work, 0, units)
        return 0
    with nogil:  # the caller keeps the arrays alive
        parallel_for(units, grain, kernel, work)
    return 0


cdef int run(Kernel kernel, void* work, Axis axis, Py_ssize_t itemsize, Py_ssize_t elements) except -1:
    cdef Cut cut = cut_of(axis, itemsize, elements)
    return run_units(
        kernel, work, cut.units, cut.grain, axis.before * axis.length * axis.behind * itemsize
    )
