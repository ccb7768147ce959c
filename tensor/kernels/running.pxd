"""How kernels run: threads, instruction sets, contexts and arrays along axes. For `cimport`."""

cimport numpy as cnp

# Call ``body(context, start, end)`` for all of ``range(size)``, in pieces of `grain` elements (the last one
# may be smaller), on several threads. The order and the thread of a piece are not defined, but pieces begin
# at multiples of `grain`. So a reduction that sums pieces first, and then these sums in order, gives the same
# result for any number of threads. When the call returns, all pieces are done and their writes are visible.
#
# Call it without the GIL. `body` must not take a lock that a caller may hold, or call Python. If another
# thread uses the pool, or inside of a `body`, the caller runs all pieces itself.
#
# A piece should take 5 us or more, because taking one costs about 20 ns, and waking a worker about 4 us. A
# single piece starts no worker.
cdef void parallel_for(
    Py_ssize_t size,
    Py_ssize_t grain,
    void (*body)(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil,
    void* context,
) noexcept nogil

# Return a grain of at most `grain`, rounded up to 64, so that threads have equally many pieces. With 32,768,
# one of two threads would get 65,536 of 100,000 elements. Only for results that do not depend on the pieces.
cdef Py_ssize_t even_grain(Py_ssize_t size, Py_ssize_t grain) noexcept nogil

# The argument of `name_kernels_of` of a family (simd.h): 0 for the baseline, 1 for AVX2, 2 for AVX-512. It is
# set before modules of kernels are imported, and never changes.
cdef int simd_level

# Enter a kernel context: NumPy's warnings for overflow and division by zero are off and, if `pooled`, NumPy
# allocates from the pool. `leave` must follow, with the result of `enter`.
cdef object enter(bint pooled)
cdef int leave(object context, bint pooled) except -1


cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    # Return `n` divided by `by`, rounded up.
    Py_ssize_t ceil_of(Py_ssize_t n, Py_ssize_t by)

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
