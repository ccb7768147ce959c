"""Kernels of max pooling: the largest element of each window, gather and scatter-add.

Arrays are float32 or float64, in C order, with shape ``(planes, depth, height, width)``. Places are int64
indices into a flattened plane. One thread computes a whole plane, so results do not depend on the number of
threads. Call the functions inside a kernel context (`tensor.kernels.context`).
"""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tensor.kernels.axes cimport Kernel, kind_of, new_array, run_units
from tensor.kernels.simd cimport simd_level

cnp.import_array()

cdef extern from "tensor/kernels/pooling.h" namespace "disposescope::kernels" nogil:
    cdef struct WindowAxis:
        Py_ssize_t size
        Py_ssize_t outs
        Py_ssize_t step
        Py_ssize_t low
        Py_ssize_t high
        Py_ssize_t stride
        Py_ssize_t kernel
        const int64_t* starts
        const int64_t* counts
    cdef struct LargestWork:
        WindowAxis axes[3]
        const void* x
        void* out
        int64_t* places
    cdef struct PlacesWork:
        Py_ssize_t count
        Py_ssize_t size
        const int64_t* places
        const void* x
        void* out
    cdef struct Pooling:
        Kernel largest[2]
        Kernel take[2]
        Kernel add[2]
    const Pooling* pooling_kernels_of(int level)

cdef const Pooling* _kernels = pooling_kernels_of(simd_level)

cdef enum:
    # The number of elements in a piece of work: about 5 us.
    PIECE = 1 << 12


cdef int _check(cnp.ndarray x) except -1:
    cdef int kind = kind_of(x)
    if kind < 0:
        raise TypeError("pooling takes C-contiguous arrays of float32 or float64")
    return kind


cdef int _check_places(cnp.ndarray places) except -1:
    if cnp.PyArray_TYPE(places) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY_RO(places):
        raise TypeError("places must be a C-contiguous array of int64")
    return 0


cdef void _find_regular_windows(WindowAxis* axis) noexcept:
    """Set `low` and `high` to the range of windows with the size and stride of the middle one."""
    cdef Py_ssize_t middle = axis.outs // 2
    axis.low = axis.high = middle
    axis.stride = axis.kernel = 1
    if axis.outs < 2:
        return
    axis.kernel = axis.counts[middle]
    axis.stride = axis.starts[middle] - axis.starts[middle - 1]
    while axis.high < axis.outs and axis.counts[axis.high] == axis.kernel and (
        axis.starts[axis.high] - axis.starts[middle] == (axis.high - middle) * axis.stride
    ):
        axis.high += 1
    while axis.low > 0 and axis.counts[axis.low - 1] == axis.kernel and (
        axis.starts[middle] - axis.starts[axis.low - 1] == (middle - axis.low + 1) * axis.stride
    ):
        axis.low -= 1


def largest_of_windows(cnp.ndarray x not None, windows, bint with_places):
    """Return the maximum of each window of `x`, and its index in the plane; None without `with_places`.

    `windows` has ``(starts, counts, step)`` for each of the three dimensions of a plane. Window i has the
    ``counts[i]`` elements from ``starts[i]`` on, `step` apart. The caller guarantees that no window is empty
    or leaves the plane. This is not checked.
    """
    cdef LargestWork work
    cdef cnp.npy_intp shape[4]
    cdef cnp.ndarray out, places = None, starts, counts
    cdef int i, kind = _check(x)
    cdef Py_ssize_t each = 1
    shape[0] = cnp.PyArray_DIM(x, 0)
    for i in range(3):
        starts, counts, step = windows[i]
        work.axes[i].size = cnp.PyArray_DIM(x, i + 1)
        work.axes[i].outs = cnp.PyArray_SIZE(starts)
        work.axes[i].step = step
        work.axes[i].starts = <const int64_t*>cnp.PyArray_DATA(starts)
        work.axes[i].counts = <const int64_t*>cnp.PyArray_DATA(counts)
        shape[i + 1] = work.axes[i].outs
        each *= max(<Py_ssize_t>counts.sum(), 1)
    _find_regular_windows(&work.axes[2])
    if cnp.PyArray_SIZE(x) // max(shape[0], 1) >= 1 << 31:
        work.axes[2].high = work.axes[2].low  # 32 bits are not enough for indices in such planes
    out = new_array(4, shape, cnp.PyArray_TYPE(x))
    work.places = NULL
    if with_places:
        places = new_array(4, shape, cnp.NPY_INT64)
        work.places = <int64_t*>cnp.PyArray_DATA(places)
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(out)
    if cnp.PyArray_SIZE(out):
        run_units(_kernels.largest[kind], &work, shape[0], max(PIECE // each, 1), cnp.PyArray_NBYTES(x))
    return out, places


def take_places(cnp.ndarray x not None, cnp.ndarray places not None):
    """Return the elements of each plane of `x`, ``(planes, *)``, at the indices `places`, ``(planes, *)``.

    The caller guarantees that indices are within a plane, and that no other code writes to them meanwhile.
    """
    cdef PlacesWork work
    cdef int kind = _check(x)
    cdef Py_ssize_t planes = cnp.PyArray_DIM(x, 0)
    cdef cnp.ndarray out = new_array(cnp.PyArray_NDIM(places), cnp.PyArray_DIMS(places), cnp.PyArray_TYPE(x))
    _check_places(places)
    if cnp.PyArray_SIZE(out):
        work.count = cnp.PyArray_SIZE(places) // planes
        work.size = cnp.PyArray_SIZE(x) // planes
        work.places = <const int64_t*>cnp.PyArray_DATA(places)
        work.x = cnp.PyArray_DATA(x)
        work.out = cnp.PyArray_DATA(out)
        run_units(
            _kernels.take[kind], &work, planes, max(PIECE // work.count, 1), cnp.PyArray_NBYTES(out)
        )
    return out


def add_at_places(cnp.ndarray x not None, cnp.ndarray places not None, sizes):
    """Return planes of `sizes` with each element of `x` added at its index. `places` has the shape of `x`.

    The caller guarantees that indices are within a plane, and that no other code writes to them meanwhile.
    """
    cdef PlacesWork work
    cdef cnp.npy_intp shape[4]
    cdef int i, kind = _check(x)
    cdef cnp.ndarray out
    _check_places(places)
    shape[0] = cnp.PyArray_DIM(x, 0)
    for i in range(3):
        shape[i + 1] = sizes[i]
    out = new_array(4, shape, cnp.PyArray_TYPE(x))
    if cnp.PyArray_SIZE(out):
        work.count = cnp.PyArray_SIZE(x) // shape[0]
        work.size = cnp.PyArray_SIZE(out) // shape[0]
        work.places = <const int64_t*>cnp.PyArray_DATA(places)
        work.x = cnp.PyArray_DATA(x)
        work.out = cnp.PyArray_DATA(out)
        run_units(_kernels.add[kind], &work, shape[0], max(PIECE // work.size, 1), cnp.PyArray_NBYTES(out))
    return out
