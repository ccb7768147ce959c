"""Compiled elementwise functions of float32 and float64, on the pool. For `cimport`."""

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

# Bytes of an operand in one piece of `parallel_for`: for what takes about 0.1 ns for a float, and for what
# takes 0.4 ns or more.
cdef enum:
    CHEAP = 1 << 17
    DEAR = 1 << 16


cdef class UnaryKernel:
    cdef Loops _loops
    cdef Py_ssize_t _bytes_in_piece
    # What computes the same for all other arrays: a function of an array, and `out` if that is given.
    cdef readonly object plain
    # The result in `out`, or in a new array if that is None; None for what is left to `plain`.
    cdef cnp.ndarray run(self, object x, cnp.ndarray out)
    # The loop over elements of that dtype, by NumPy's number; NULL: left to `plain`.
    cdef Loop loop_for(self, int type_number) noexcept


cdef class BinaryKernel:
    cdef BinaryLoops _loops
    cdef bint _is_commutative
    cdef readonly object plain
    cdef cnp.ndarray run(self, object a, object b, cnp.ndarray out)


# Of two arrays of one shape and a number that is fixed, as derivatives are.
cdef class SlopeKernel:
    cdef Loops _loops
    cdef Py_ssize_t _bytes_in_piece
    cdef cnp.ndarray run(self, object g, object x, double number, cnp.ndarray out)


cdef UnaryKernel unary_kernel(Loops loops, Py_ssize_t bytes_in_piece, object plain)
cdef BinaryKernel binary_kernel(BinaryLoops loops, object plain, bint is_commutative)
cdef SlopeKernel slope_kernel(Loops loops, Py_ssize_t bytes_in_piece)

# For kernels of other shapes. Whether loops over floats and doubles can run over `x`: it is an array of one
# of them, in native byte order, aligned, and its elements follow each other in C's or Fortran's order.
cdef bint is_plain(object x) noexcept
# An array for a result, as `x` is; from the pool if large.
cdef cnp.ndarray new_like(cnp.ndarray x)
# Whether `out` is as `x` is, and in the place of none of `operands` or exactly in one's place.
cdef bint may_write(cnp.ndarray out, cnp.ndarray x, object other) noexcept
# Runs a loop over `size` elements of `itemsize` bytes, on the pool where that pays.
cdef void run_loop(Loop loop, Operands* operands, Py_ssize_t size, Py_ssize_t grain) noexcept
