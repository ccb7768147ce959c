"""Compiled elementwise functions of float32 and float64, on the thread pool. For `cimport`."""

cimport numpy as cnp

cdef extern from "tensor/kernels/elementwise.h" namespace "disposescope::kernels" nogil:
    ctypedef void (*Loop)(void* operands, Py_ssize_t start, Py_ssize_t end) noexcept

    struct Operands:
        const void* a
        const void* b
        void* out
        double number
        Py_ssize_t columns

    struct Loops:
        Loop of_floats
        Loop of_doubles

    struct BinaryLoops:
        Loops arrays
        Loops array_and_number
        Loops number_and_array
        Loops array_and_row

# Bytes of an operand in one piece of `parallel_for`: CHEAP for functions that take about 0.1 ns for a float,
# EXPENSIVE for functions that take 0.4 ns or more.
cdef enum:
    CHEAP = 1 << 17
    EXPENSIVE = 1 << 16


cdef class UnaryKernel:
    cdef Loops _loops
    cdef Py_ssize_t _bytes_in_piece
    # The function for arrays that the loops do not support: ``plain(x)`` or ``plain(x, out=out)``.
    cdef readonly object plain
    # Return the result in `out`, or in a new array if that is None. Return None for arrays that `plain` must
    # handle.
    cdef cnp.ndarray run(self, object x, cnp.ndarray out)
    # Return the loop for the dtype with this type number, or NULL if `plain` must handle it.
    cdef Loop loop_for(self, int type_number) noexcept


cdef class BinaryKernel:
    cdef BinaryLoops _loops
    cdef bint _is_commutative
    cdef readonly object plain
    cdef cnp.ndarray run(self, object a, object b, cnp.ndarray out)


# A function of two arrays of one shape and a constant number, such as a derivative.
cdef class SlopeKernel:
    cdef Loops _loops
    cdef Py_ssize_t _bytes_in_piece
    cdef cnp.ndarray run(self, object g, object x, double number, cnp.ndarray out)


cdef UnaryKernel unary_kernel(Loops loops, Py_ssize_t bytes_in_piece, object plain)
cdef BinaryKernel binary_kernel(BinaryLoops loops, object plain, bint is_commutative)
cdef SlopeKernel slope_kernel(Loops loops, Py_ssize_t bytes_in_piece)

# Return whether loops can process `x`: a float32 or float64 array in native byte order, aligned, and
# contiguous in C or Fortran order.
cdef bint is_plain(object x) noexcept
# Return an array like `x` for a result, from the pool if it is large.
cdef cnp.ndarray new_like(cnp.ndarray x)
# Return whether a loop may write to `out`, which must have the dtype, shape and memory order of the operand
# `x`. `out` may be the same memory as `x` or `other`, but must not partly overlap either.
cdef bint may_write(cnp.ndarray out, cnp.ndarray x, object other) noexcept
# Run a loop over `size` elements, on the thread pool if that is faster. A piece has about `grain` elements.
cdef void run_loop(Loop loop, Operands* operands, Py_ssize_t size, Py_ssize_t grain) noexcept

cdef class PowerKernel:
    cdef cnp.ndarray run(self, object x, object n, cnp.ndarray out)
