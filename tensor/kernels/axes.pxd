"""Functions for kernels along axes: shapes as an `Axis`, new arrays, and runs on threads. For `cimport`."""

cimport numpy as cnp

cdef extern from "tensor/kernels/axes.h" namespace "disposescope::kernels" nogil:
    cdef struct Axis:
        Py_ssize_t before
        Py_ssize_t length
        Py_ssize_t behind

ctypedef void (*Kernel)(void* work, Py_ssize_t start, Py_ssize_t end) noexcept nogil

# Return the index into tables of kernels: 0 for float32, 1 for float64. Return -1 for other dtypes, and
# unless the array is C-contiguous, aligned and in native byte order.
cdef int kind_of(cnp.ndarray a) noexcept

# Return the shape of `a` along `axis`, counted from the front (axes.h).
cdef Axis one_axis(cnp.ndarray a, int axis) noexcept

# The same for an int, a tuple of ints, or None for all axes. `length` is -1 unless the axes are adjacent.
cdef Axis some_axes(cnp.ndarray a, object axis) except *

# Create arrays; large ones come from the pool. Raise MemoryError if the allocator refuses.
cdef cnp.ndarray new_array(int ndim, cnp.npy_intp* shape, int typenum)
cdef cnp.ndarray new_like(cnp.ndarray a)
# Create an array with the shape of a reduction over `axis`; None means all axes.
cdef cnp.ndarray new_reduced(cnp.ndarray a, object axis, bint keepdims, int typenum)

# Run `kernel` for the units from 0 to `units`, in pieces of `grain`, on several threads if there are several
# pieces. `nbytes` is the size of the array, which the caller keeps alive. Do nothing if there are no units.
cdef int run_units(
    Kernel kernel, void* work, Py_ssize_t units, Py_ssize_t grain, Py_ssize_t nbytes
) except -1

# Run `kernel` for the units of `axis` (axes.h), on several threads if there are several pieces of about
# `elements` elements. `itemsize` is the itemsize of the array.
cdef int run(Kernel kernel, void* work, Axis axis, Py_ssize_t itemsize, Py_ssize_t elements) except -1
