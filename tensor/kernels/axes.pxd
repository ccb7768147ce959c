"""How kernels along axes see arrays, and make their results. For `cimport`."""

cimport numpy as cnp

cdef extern from "tensor/kernels/axes.h" namespace "disposescope::kernels" nogil:
    cdef struct Axis:
        Py_ssize_t before
        Py_ssize_t length
        Py_ssize_t behind

ctypedef void (*Kernel)(void* work, Py_ssize_t start, Py_ssize_t end) noexcept nogil

# 0 for floats, 1 for doubles, as tables of kernels have them, if the array has C order, and the alignment and
# the byte order of the machine; else -1.
cdef int kind_of(cnp.ndarray a) noexcept

# An int, as it is counted from the front.
cdef Axis one_axis(cnp.ndarray a, int axis) noexcept

# An int, a tuple of some, or None for all; `length` is -1 where they do not lie side by side.
cdef Axis some_axes(cnp.ndarray a, object axis) except *

# New arrays: large ones come from the pool. MemoryError when they are refused.
cdef cnp.ndarray new_array(int ndim, cnp.npy_intp* shape, int typenum)
cdef cnp.ndarray new_like(cnp.ndarray a)
# Of the shape that a reduction over `axis` leaves, which may be None for all.
cdef cnp.ndarray new_reduced(cnp.ndarray a, object axis, bint keepdims, int typenum)

# Lets `kernel` do the units from 0 to `units`, in pieces of `grain`, on several threads if there are some.
# `nbytes` are those of the array; the caller holds it. Without units the kernel is not called.
cdef int run_units(
    Kernel kernel, void* work, Py_ssize_t units, Py_ssize_t grain, Py_ssize_t nbytes
) except -1

# Lets `kernel` do the units of `axis` (axes.h), on several threads if there are some pieces of at least
# `elements` elements. `itemsize` is that of the array.
cdef int run(Kernel kernel, void* work, Axis axis, Py_ssize_t itemsize, Py_ssize_t elements) except -1
