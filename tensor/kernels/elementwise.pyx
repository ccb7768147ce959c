"""Compiled elementwise functions of float32 and float64, on the thread pool.

A kernel supports contiguous arrays of one shape, numbers, and a row that is broadcast to each row of an
array. For other operands `run` returns None, and a call uses `plain`, mostly a function of NumPy.
"""

cimport cython
cimport numpy as cnp

from tensor.kernels.threads cimport even_grain, parallel_for
from tensor.memory.allocator cimport enter_pool, is_worth_pooling, leave_pool

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewLikeArray(cnp.ndarray prototype, cnp.NPY_ORDER order, PyObject* dtype, int subok)

cdef extern from "Python.h":
    ctypedef struct PyObject

cdef extern from "tensor/kernels/streaming.h" namespace "disposescope::kernels" nogil:
    struct Streamed:
        Loop loop
        const Operands* operands
        Py_ssize_t itemsize
    bint is_streamed(const void* out, Py_ssize_t nbytes) noexcept
    void run_streamed(void* streamed, Py_ssize_t start, Py_ssize_t end) noexcept

# For fewer elements, keep the GIL: releasing it takes as long as the loop.
cdef enum:
    FEW = 4096


cdef inline bint _is_float(cnp.ndarray x) noexcept:
    return cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT or cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE


cdef bint is_plain(object x) noexcept:
    return (
        type(x) is cnp.ndarray
        and _is_float(<cnp.ndarray> x)
        and (cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray> x) or cnp.PyArray_IS_F_CONTIGUOUS(<cnp.ndarray> x))
        and cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray> x)
    )


cdef cnp.ndarray new_like(cnp.ndarray x):
    if not is_worth_pooling(cnp.PyArray_NBYTES(x)):
        return PyArray_NewLikeArray(x, cnp.NPY_KEEPORDER, NULL, 0)
    previous = enter_pool()
    try:
        return PyArray_NewLikeArray(x, cnp.NPY_KEEPORDER, NULL, 0)
    finally:
        leave_pool(previous)


cdef inline bint _is_alike(cnp.ndarray x, cnp.ndarray y) noexcept:
    """Return whether `x` and `y`, both plain, have the same shape and memory order."""
    return (
        cnp.PyArray_TYPE(x) == cnp.PyArray_TYPE(y)
        and cnp.PyArray_SAMESHAPE(x, y)
        and (
            (cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(y))
            or (cnp.PyArray_IS_F_CONTIGUOUS(x) and cnp.PyArray_IS_F_CONTIGUOUS(y))
        )
    )


cdef inline bint _is_apart(cnp.ndarray out, cnp.ndarray x) noexcept:
    """Return whether `out` and `x` do not overlap, or are the same memory."""
    cdef const char* first = <const char*> cnp.PyArray_DATA(out)
    cdef const char* second = <const char*> cnp.PyArray_DATA(x)
    if first == second:
        return cnp.PyArray_NBYTES(out) == cnp.PyArray_NBYTES(x)
    return first + cnp.PyArray_NBYTES(out) <= second or second + cnp.PyArray_NBYTES(x) <= first


cdef bint may_write(cnp.ndarray out, cnp.ndarray x, object other) noexcept:
    return (
        is_plain(out)
        and cnp.PyArray_ISWRITEABLE(out)
        and _is_alike(out, x)
        and _is_apart(out, x)
        and (type(other) is not cnp.ndarray or _is_apart(out, <cnp.ndarray> other))
    )


cdef void run_loop(Loop loop, Operands* operands, Py_ssize_t size, Py_ssize_t grain) noexcept:
    if size < FEW and size <= grain:
        loop(operands, 0, size)
        return
    with nogil:  # the caller keeps the arrays alive
        parallel_for(size, even_grain(size, grain), loop, operands)


cdef void _run_streamed(Loop loop, Operands* operands, cnp.ndarray out, Py_ssize_t grain) noexcept:
    cdef Streamed streamed
    cdef Py_ssize_t size = cnp.PyArray_SIZE(out)
    streamed.loop = loop
    streamed.operands = operands
    streamed.itemsize = cnp.PyArray_ITEMSIZE(out)
    with nogil:  # as in `run_loop`
        parallel_for(size, even_grain(size, grain), run_streamed, &streamed)


cdef inline Loop _loop_for(Loops loops, cnp.ndarray x) noexcept:
    return loops.of_floats if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT else loops.of_doubles


cdef inline void _fill(
    cnp.ndarray out, Loops loops, Operands* operands, Py_ssize_t bytes_in_piece, bint is_new
) noexcept:
    """Run a loop over all of `out`. `is_new` means that the caller did not pass `out`."""
    cdef Loop loop = _loop_for(loops, out)
    cdef Py_ssize_t grain = bytes_in_piece // cnp.PyArray_ITEMSIZE(out)
    operands.out = cnp.PyArray_DATA(out)
    # Stream (streaming.h) only loops limited by memory: exp in small pieces takes 1.25 times as long.
    if is_new and bytes_in_piece == CHEAP and is_streamed(operands.out, cnp.PyArray_NBYTES(out)):
        _run_streamed(loop, operands, out, grain)
    else:
        run_loop(loop, operands, cnp.PyArray_SIZE(out), grain)


cdef bint _is_one_value(cnp.ndarray x) noexcept:
    """Return whether all elements share one memory location, as in a scalar or an expanded array."""
    cdef int i
    for i in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_STRIDE(x, i) != 0 or cnp.PyArray_DIM(x, i) == 0:
            return False
    return _is_float(x) and cnp.PyArray_ISBEHAVED_RO(x)


cdef inline bint _as_number(object x, cnp.ndarray beside, double* number) noexcept:
    """Return whether `x` is a Python number, or one number in the dtype of `beside`. Set `number` to it."""
    if type(x) is float:
        number[0] = <double> x
        return True
    if type(x) is int:
        # Larger integers are not exact as doubles, and NumPy raises an error for the largest.
        if not -(1 << 53) <= x <= 1 << 53:
            return False
        number[0] = <double> x
        return True
    if type(x) is not cnp.ndarray or not _is_one_value(<cnp.ndarray> x):
        return False
    if cnp.PyArray_TYPE(<cnp.ndarray> x) != cnp.PyArray_TYPE(beside):
        return False
    if cnp.PyArray_NDIM(<cnp.ndarray> x) != 0 and not cnp.PyArray_SAMESHAPE(<cnp.ndarray> x, beside):
        return False
    if cnp.PyArray_TYPE(beside) == cnp.NPY_FLOAT:
        number[0] = (<float*> cnp.PyArray_DATA(<cnp.ndarray> x))[0]
    else:
        number[0] = (<double*> cnp.PyArray_DATA(<cnp.ndarray> x))[0]
    return True


@cython.final
cdef class UnaryKernel:
    """A function of one array: ``kernel(x)`` and ``kernel(x, out)``."""

    cdef cnp.ndarray run(self, object x, cnp.ndarray out):
        cdef Operands operands
        cdef bint is_new = out is None
        if not is_plain(x):
            return None
        if is_new:
            out = new_like(<cnp.ndarray> x)
        elif not may_write(out, <cnp.ndarray> x, None):
            return None
        operands.a = cnp.PyArray_DATA(<cnp.ndarray> x)
        operands.b = NULL
        _fill(out, self._loops, &operands, self._bytes_in_piece, is_new)
        return out

    cdef Loop loop_for(self, int type_number) noexcept:
        if type_number == cnp.NPY_FLOAT:
            return self._loops.of_floats
        return self._loops.of_doubles if type_number == cnp.NPY_DOUBLE else NULL

    def __call__(self, x, out=None):
        result = self.run(x, out)
        if result is not None:
            return result
        return self.plain(x) if out is None else self.plain(x, out=out)


@cython.final
cdef class BinaryKernel:
    """A function of two operands, at least one of them an array: ``kernel(a, b)``, ``kernel(a, b, out)``."""

    cdef cnp.ndarray run(self, object a, object b, cnp.ndarray out):
        cdef Operands operands
        cdef Loops* loops
        cdef Py_ssize_t size, grain
        cdef cnp.ndarray shaped
        cdef bint is_new = out is None
        operands.columns = 1
        operands.a = operands.b = NULL
        if is_plain(a) and _as_number(b, <cnp.ndarray> a, &operands.number):
            loops = &self._loops.array_and_number
            shaped = a
            operands.a = cnp.PyArray_DATA(shaped)
        elif is_plain(b) and _as_number(a, <cnp.ndarray> b, &operands.number):
            loops = &self._loops.number_and_array
            shaped = b
            operands.b = cnp.PyArray_DATA(shaped)
        elif is_plain(a) and is_plain(b):
            if _is_alike(a, b):
                loops = &self._loops.arrays
            else:
                if self._is_commutative and cnp.PyArray_NBYTES(a) < cnp.PyArray_NBYTES(b):
                    a, b = b, a
                operands.columns = _columns(a, b)
                if operands.columns == 0:
                    return None
                loops = &self._loops.array_and_row
            shaped = a
            operands.a = cnp.PyArray_DATA(shaped)
            operands.b = cnp.PyArray_DATA(<cnp.ndarray> b)
        else:
            return None
        if is_new:
            out = new_like(shaped)
        elif not may_write(out, shaped, a if b is shaped else b):
            return None
        if operands.columns == 1:
            _fill(out, loops[0], &operands, CHEAP, is_new)
            return out
        operands.out = cnp.PyArray_DATA(out)
        size = cnp.PyArray_SIZE(out) // operands.columns
        grain = CHEAP // cnp.PyArray_ITEMSIZE(out) // operands.columns
        run_loop(_loop_for(loops[0], out), &operands, size, max(grain, 1))
        return out

    def __call__(self, a, b, out=None):
        result = self.run(a, b, out)
        if result is not None:
            return result
        return self.plain(a, b) if out is None else self.plain(a, b, out=out)

    def over(self, a, b):
        """Return the result in the memory of the array `a` if possible, else in new memory."""
        if type(a) is cnp.ndarray:
            result = self.run(a, b, a)
            if result is not None:
                return result
        return self(a, b)


cdef Py_ssize_t _columns(cnp.ndarray a, cnp.ndarray b) noexcept:
    """Return the length of `b` if it is a row to broadcast to all rows of `a`, else 0."""
    cdef Py_ssize_t columns = cnp.PyArray_SIZE(b)
    cdef int i, ndim = cnp.PyArray_NDIM(a), given = cnp.PyArray_NDIM(b)
    # With shorter rows, NumPy is as fast.
    if columns < 8 or cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(b) or given > ndim:
        return 0
    if not cnp.PyArray_IS_C_CONTIGUOUS(a) or not cnp.PyArray_IS_C_CONTIGUOUS(b):
        return 0
    # Skip leading dimensions of size 1. The others must be the last dimensions of `a`.
    i = 0
    while i < given and cnp.PyArray_DIM(b, i) == 1:
        i += 1
    while i < given:
        if cnp.PyArray_DIM(b, i) != cnp.PyArray_DIM(a, ndim - given + i):
            return 0
        i += 1
    return columns


@cython.final
cdef class SlopeKernel:
    """A function of a gradient and an array of its shape. Returns None for unsupported operands."""

    cdef cnp.ndarray run(self, object g, object x, double number, cnp.ndarray out):
        cdef Operands operands
        cdef bint is_new = out is None
        if not is_plain(x) or type(g) is not cnp.ndarray:
            return None
        if cnp.PyArray_TYPE(g) != cnp.PyArray_TYPE(x) or not cnp.PyArray_SAMESHAPE(g, x):
            return None
        if not is_plain(g) or not _is_alike(g, x):
            # Write the result over a copy of `g` in the memory order of `x`.
            out = new_like(<cnp.ndarray> x)
            cnp.PyArray_CopyInto(out, <cnp.ndarray> g)
            g = out
        elif out is None:
            out = new_like(<cnp.ndarray> g)
        elif not may_write(out, <cnp.ndarray> g, x):
            return None
        operands.a = cnp.PyArray_DATA(<cnp.ndarray> g)
        operands.b = cnp.PyArray_DATA(<cnp.ndarray> x)
        operands.number = number
        _fill(out, self._loops, &operands, self._bytes_in_piece, is_new)
        return out

    def __call__(self, g, x, double number=0.0):
        return self.run(g, x, number, None)

    def over(self, g, x, double number=0.0):
        """Return the result in the memory of `g` if possible, else in new memory."""
        result = self.run(g, x, number, g) if type(g) is cnp.ndarray else None
        return self.run(g, x, number, None) if result is None else result


cdef UnaryKernel unary_kernel(Loops loops, Py_ssize_t bytes_in_piece, object plain):
    cdef UnaryKernel kernel = UnaryKernel.__new__(UnaryKernel)
    kernel._loops = loops
    kernel._bytes_in_piece = bytes_in_piece
    kernel.plain = plain
    return kernel


cdef BinaryKernel binary_kernel(BinaryLoops loops, object plain, bint is_commutative):
    cdef BinaryKernel kernel = BinaryKernel.__new__(BinaryKernel)
    kernel._loops = loops
    kernel._is_commutative = is_commutative
    kernel.plain = plain
    return kernel


cdef SlopeKernel slope_kernel(Loops loops, Py_ssize_t bytes_in_piece):
    cdef SlopeKernel kernel = SlopeKernel.__new__(SlopeKernel)
    kernel._loops = loops
    kernel._bytes_in_piece = bytes_in_piece
    return kernel
