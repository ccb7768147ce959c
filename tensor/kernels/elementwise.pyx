"""Compiled elementwise functions of float32 and float64, on the thread pool.

A kernel supports contiguous arrays of one shape, numbers, and a row that is broadcast to each row of an
array. For other operands `run` returns None, and a call uses `plain`, mostly a function of NumPy. Loops are
in `arithmetic.cpp`, `exponentials.cpp`, `gaussian.cpp`, `powers.cpp` and `choices.cpp`.
"""

cimport cython
cimport numpy as cnp
from libc.math cimport INFINITY, fabs
from libc.stdint cimport uintptr_t

from tensor.kernels.running cimport even_grain, parallel_for, simd_level
from tensor.memory.allocator cimport enter_pool, is_worth_pooling, leave_pool

import numpy as np


cnp.import_array()
cnp.import_ufunc()


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


# --- Arithmetic ---------------------------------------------------------------------------------------------
#
# Plain arithmetic of float32 and float64, rounded as in IEEE 754, with the same results as NumPy.

cdef extern from "tensor/kernels/arithmetic.h" namespace "disposescope::kernels" nogil:
    struct Arithmetic:
        BinaryLoops add, subtract, multiply, divide, maximum, minimum
        Loops negative, absolute, square, sqrt, reciprocal, reciprocal_root, relu, hardsigmoid, hardswish
    const Arithmetic* arithmetic_kernels_of(int level)

cdef const Arithmetic* _arithmetic = arithmetic_kernels_of(simd_level)


def _multiply(a, b, out=None):
    return _with_number(np.multiply, a, b, out)


def _divide(a, b, out=None):
    return _with_number(np.divide, a, b, out)


cdef object _with_number(object ufunc, object a, object b, cnp.ndarray out):
    """Return ``ufunc(a, b)``, a product or quotient. A number beside float16 is a float32, as in PyTorch."""
    cdef object x = a
    if _is_half(a) and _is_number(b):
        b = _as_float32(b)
    elif _is_half(b) and _is_number(a):
        x = b
        a = _as_float32(a)
    else:
        return ufunc(a, b) if out is None else ufunc(a, b, out=out)
    if out is None:
        out = np.empty_like(x)
    # NumPy computes in float32, and rounds once.
    return ufunc(a, b, out=out, casting="same_kind")


cdef inline bint _is_half(object x) noexcept:
    return isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray> x) == cnp.NPY_FLOAT16


cdef inline bint _is_number(object x) noexcept:
    return type(x) is float or type(x) is int


cdef inline object _as_float32(object number):
    cdef float narrow = <float> <double> number
    return np.float32(narrow)


def _reciprocal_root(x):
    return np.reciprocal(np.sqrt(x))


def _relu(x, out=None):
    return np.maximum(x, 0, out=out)


def _hardsigmoid(x, out=None):
    return np.divide(np.clip(x + 3, 0, 6), 6, out=out)


def _hardswish(x, out=None):
    return np.divide(x * np.clip(x + 3, 0, 6), 6, out=out)


add = binary_kernel(_arithmetic.add, np.add, True)
subtract = binary_kernel(_arithmetic.subtract, np.subtract, False)
multiply = binary_kernel(_arithmetic.multiply, _multiply, True)
divide = binary_kernel(_arithmetic.divide, _divide, False)
maximum = binary_kernel(_arithmetic.maximum, np.maximum, False)
minimum = binary_kernel(_arithmetic.minimum, np.minimum, False)
negative = unary_kernel(_arithmetic.negative, CHEAP, np.negative)
absolute = unary_kernel(_arithmetic.absolute, CHEAP, np.absolute)
square = unary_kernel(_arithmetic.square, CHEAP, np.square)
sqrt = unary_kernel(_arithmetic.sqrt, CHEAP, np.sqrt)
reciprocal = unary_kernel(_arithmetic.reciprocal, CHEAP, np.reciprocal)
reciprocal_root = unary_kernel(_arithmetic.reciprocal_root, CHEAP, _reciprocal_root)
relu = unary_kernel(_arithmetic.relu, CHEAP, _relu)
hardsigmoid = unary_kernel(_arithmetic.hardsigmoid, CHEAP, _hardsigmoid)
hardswish = unary_kernel(_arithmetic.hardswish, CHEAP, _hardswish)


# --- Exponentials and logarithms ----------------------------------------------------------------------------
#
# Exponentials, logarithms, and activations based on them: float32 and float64, errors of at most 2 ulp.
#
# As in IEEE 754 and C, nan stays nan, infinities and zeros give the limits, and subnormal results are rounded
# like others. silu(-inf) is -0.

cdef extern from "tensor/kernels/exponentials.h" namespace "disposescope::kernels" nogil:
    struct Exponentials:
        Loops exp, log, tanh, sigmoid, silu, softplus, logsigmoid
        Loops tanh_slope, sigmoid_slope, silu_slope, softplus_slope, logsigmoid_slope
    const Exponentials* exponentials_kernels_of(int level)

cdef const Exponentials* _exponentials = exponentials_kernels_of(simd_level)

exp = unary_kernel(_exponentials.exp, EXPENSIVE, np.exp)
log = unary_kernel(_exponentials.log, EXPENSIVE, np.log)
tanh = unary_kernel(_exponentials.tanh, EXPENSIVE, np.tanh)
# NumPy lacks these functions, so `plain` is None, and callers convert arrays first.
sigmoid = unary_kernel(_exponentials.sigmoid, EXPENSIVE, None)
silu = unary_kernel(_exponentials.silu, EXPENSIVE, None)
softplus = unary_kernel(_exponentials.softplus, EXPENSIVE, None)
logsigmoid = unary_kernel(_exponentials.logsigmoid, EXPENSIVE, None)

tanh_slope = slope_kernel(_exponentials.tanh_slope, EXPENSIVE)
sigmoid_slope = slope_kernel(_exponentials.sigmoid_slope, EXPENSIVE)
silu_slope = slope_kernel(_exponentials.silu_slope, EXPENSIVE)
softplus_slope = slope_kernel(_exponentials.softplus_slope, EXPENSIVE)
logsigmoid_slope = slope_kernel(_exponentials.logsigmoid_slope, EXPENSIVE)


# --- The error function -------------------------------------------------------------------------------------
#
# The error function, and activations based on the normal distribution: float32 and float64.
#
# docs/accuracy.md lists the errors. They are as low where erfc and gelu are close to 0. gelu(-inf) is -0.

cdef extern from "tensor/kernels/gaussian.h" namespace "disposescope::kernels" nogil:
    struct Gaussian:
        Loops erf, erfc, gelu, gelu_by_tanh
        Loops erf_slope, gelu_slope, gelu_by_tanh_slope
    const Gaussian* gaussian_kernels_of(int level)

cdef const Gaussian* _gaussian = gaussian_kernels_of(simd_level)

# NumPy lacks these functions, so `plain` is None, and callers convert arrays first.
erf = unary_kernel(_gaussian.erf, EXPENSIVE, None)
erfc = unary_kernel(_gaussian.erfc, EXPENSIVE, None)
gelu = unary_kernel(_gaussian.gelu, EXPENSIVE, None)
gelu_by_tanh = unary_kernel(_gaussian.gelu_by_tanh, EXPENSIVE, None)

erf_slope = slope_kernel(_gaussian.erf_slope, EXPENSIVE)
gelu_slope = slope_kernel(_gaussian.gelu_slope, EXPENSIVE)
gelu_by_tanh_slope = slope_kernel(_gaussian.gelu_by_tanh_slope, EXPENSIVE)


# --- Powers -------------------------------------------------------------------------------------------------
#
# Powers of float32 and float64 with one exponent for all elements, by products and square roots.
#
# ``np.power`` takes 60 to 90 ns for a negative base on processors without AVX-512; a product takes less
# than 1 ns. Squares and cubes have the same bits as ``x * x`` and ``x * x * x``. The exponents 0.5, 1.5 and
# -0.5 use square roots, with errors below 1.5 ulp. Other integer exponents from -64 to 64 have errors of at
# most 0.51 ulp for float32 and 1 ulp for float64, and 1.5 ulp for subnormal results. x**0 is 1 for every x.
# nan, infinities and signed zeros follow IEEE 754 (``pow``), except that x**0.5 is a square root.

cdef extern from "tensor/kernels/powers.h" namespace "disposescope::kernels" nogil:
    struct Powers:
        Loops whole
        Loops cube, half, three_halves, minus_half
        Loops cube_slope, product_with_number
    const Powers* powers_kernels_of(int level)

cdef const Powers* _powers = powers_kernels_of(simd_level)

# The largest exponent that is computed by products. The errors of higher powers would be too large.
cdef enum:
    MOST_BY_PRODUCTS = 64


cdef bint _find(double n, Loops* loops, Py_ssize_t* bytes_in_piece) noexcept:
    """Find the loops for the exponent `n`. Return False to use NumPy, which is as fast for -1, 0, 1 and 2."""
    bytes_in_piece[0] = CHEAP
    if n == 3.0:
        loops[0] = _powers.cube
    elif n == 0.5:
        loops[0] = _powers.half
    elif n == 1.5:
        loops[0] = _powers.three_halves
    elif n == -0.5:
        loops[0] = _powers.minus_half
    elif -MOST_BY_PRODUCTS <= n <= MOST_BY_PRODUCTS and n == <double> <int> n and not -1 <= n <= 2:
        loops[0] = _powers.whole
        bytes_in_piece[0] = EXPENSIVE
    else:
        return False
    return True


@cython.final
cdef class PowerKernel:
    """Return ``x ** n`` of an array and a number: ``power(x, n)`` and ``power(x, n, out)``.

    >>> import numpy as np
    >>> power(np.array([-2.0, 0.5]), 3).tolist()
    [-8.0, 0.125]
    >>> power(np.array([4.0, 9.0]), 0.5).tolist()
    [2.0, 3.0]
    """

    def __call__(self, x, n, out=None):
        result = self.run(x, n, out)
        if result is not None:
            return result
        if getattr(x, "dtype", None) == np.bool_ and isinstance(n, (bool, int)):
            # NumPy's result is int8.
            return (x | (not n)) if isinstance(n, bool) else x.astype(np.int64) ** n
        # np.square computes a product, as ``x**2`` does, but np.power does not.
        if out is not None and type(n) in (int, float) and n == 2 and x.dtype == out.dtype:
            return np.square(x, out=out)
        return x**n if out is None else np.power(x, n, out=out)

    cdef cnp.ndarray run(self, object x, object n, cnp.ndarray out):
        cdef Operands operands
        cdef Loops loops
        cdef Loop loop
        cdef Py_ssize_t nbytes
        cdef cnp.ndarray target = out
        if (type(n) is not int and type(n) is not float) or not -MOST_BY_PRODUCTS <= n <= MOST_BY_PRODUCTS:
            return None
        if type(x) is not cnp.ndarray:
            return None
        if x.dtype.char not in "fd" or not _find(n, &loops, &nbytes):
            return None
        if not is_plain(x):
            x = np.array(x, x.dtype.newbyteorder("="), order="C")  # a copy is cheap compared to NumPy's power
        if out is None or not may_write(out, <cnp.ndarray> x, None):
            target = new_like(<cnp.ndarray> x)
        operands.a = cnp.PyArray_DATA(<cnp.ndarray> x)
        operands.out = cnp.PyArray_DATA(target)
        operands.number = n
        loop = loops.of_floats if cnp.PyArray_TYPE(target) == cnp.NPY_FLOAT else loops.of_doubles
        run_loop(loop, &operands, cnp.PyArray_SIZE(target), nbytes // cnp.PyArray_ITEMSIZE(target))
        if out is None or out is target:
            return target
        np.copyto(out, target, casting="same_kind")
        return out


power = PowerKernel()
cube_slope = slope_kernel(_powers.cube_slope, CHEAP)
product_with_number = slope_kernel(_powers.product_with_number, CHEAP)


# --- Masks --------------------------------------------------------------------------------------------------
#
# Masking ufuncs: keep the selected elements, and replace others by zeros, including infinities and nan.
#
# A product with the mask would give nan for infinities and nan. ``np.where`` takes two to ten times as long.

cdef extern from *:
    """
    #include <complex>
    #include <cstdint>

    /* 16-bit floats, which C++17 does not have. The value is 0 if all bits except the sign are 0. */
    struct half_bits { uint16_t bits; };

    static inline bool is_nonzero(half_bits x) { return (x.bits & 0x7fff) != 0; }
    static inline bool is_nonzero(npy_bool x) { return x != 0; }
    template <typename T> static inline bool is_nonzero(T x) { return x != T(0); }

    /* The compiler vectorises each loop. Arrays may be identical, but do not overlap partially. */
    template <typename T, typename By>
    static void keep_loop(char **args, const npy_intp *sizes, const npy_intp *steps, void *)
    {
        const npy_intp n = sizes[0];
        const T zero = T();
        if (steps[0] == sizeof(T) && steps[1] == sizeof(By) && steps[2] == sizeof(T)) {
            const T *x = (const T *)args[0];
            const By *by = (const By *)args[1];
            T *out = (T *)args[2];
            if (x == out)
                for (npy_intp i = 0; i < n; i++) {
                    const T value = out[i];
                    out[i] = is_nonzero(by[i]) ? value : zero;
                }
            else
                for (npy_intp i = 0; i < n; i++) {
                    const T value = x[i];  /* read unconditionally, to avoid a branch */
                    out[i] = is_nonzero(by[i]) ? value : zero;
                }
            return;
        }
        for (npy_intp i = 0; i < n; i++)
            *(T *)(args[2] + i * steps[2]) =
                is_nonzero(*(const By *)(args[1] + i * steps[1]))
                ? *(const T *)(args[0] + i * steps[0]) : zero;
    }

    static PyUFuncGenericFunction nonzero_loops[] = {
        keep_loop<half_bits, half_bits>, keep_loop<float, float>, keep_loop<double, double>,
        keep_loop<std::complex<float>, std::complex<float>>,
        keep_loop<std::complex<double>, std::complex<double>>};
    static PyUFuncGenericFunction true_loops[] = {
        keep_loop<half_bits, npy_bool>, keep_loop<float, npy_bool>, keep_loop<double, npy_bool>,
        keep_loop<std::complex<float>, npy_bool>, keep_loop<std::complex<double>, npy_bool>};
    static void *no_data[5] = {NULL, NULL, NULL, NULL, NULL};
    static char nonzero_types[] = {
        NPY_HALF, NPY_HALF, NPY_HALF, NPY_FLOAT, NPY_FLOAT, NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE,
        NPY_CFLOAT, NPY_CFLOAT, NPY_CFLOAT, NPY_CDOUBLE, NPY_CDOUBLE, NPY_CDOUBLE};
    static char true_types[] = {
        NPY_HALF, NPY_BOOL, NPY_HALF, NPY_FLOAT, NPY_BOOL, NPY_FLOAT, NPY_DOUBLE, NPY_BOOL, NPY_DOUBLE,
        NPY_CFLOAT, NPY_BOOL, NPY_CFLOAT, NPY_CDOUBLE, NPY_BOOL, NPY_CDOUBLE};
    """
    cnp.PyUFuncGenericFunction* nonzero_loops
    cnp.PyUFuncGenericFunction* true_loops
    void** no_data
    char* nonzero_types
    char* true_types

cdef const char* _doc_of_nonzero = b"""Return `x` where `by` is not 0, else 0.

A ufunc for inexact dtypes. `x` and `by` have the same dtype. nan counts as not 0.

>>> import numpy as np
>>> keep_nonzero_ufunc(np.array([np.inf, np.nan, 3.0]), np.array([0.0, -0.0, np.nan])).tolist()
[0.0, 0.0, 3.0]
"""

cdef const char* _doc_of_true = b"""Return `x` where `mask`, an array of bools, is true, else 0.

A ufunc for inexact dtypes.

>>> import numpy as np
>>> keep_true(np.array([np.inf, 3.0]), np.array([False, True])).tolist()
[0.0, 3.0]
"""

keep_nonzero_ufunc = cnp.PyUFunc_FromFuncAndData(
    nonzero_loops, no_data, nonzero_types, 5, 2, 1, cnp.PyUFunc_None, "keep_nonzero", _doc_of_nonzero, 0
)
keep_true = cnp.PyUFunc_FromFuncAndData(
    true_loops, no_data, true_types, 5, 2, 1, cnp.PyUFunc_None, "keep_true", _doc_of_true, 0
)

# doctest does not find docstrings of ufuncs by itself.
__test__ = {"keep_nonzero": keep_nonzero_ufunc.__doc__, "keep_true": keep_true.__doc__}


# --- NumPy's functions with corrected special cases ---------------------------------------------------------
#
# NumPy functions with corrected results for infinities, nan, zeros and bools.

cdef object _divide_down = np.floor_divide
# From this many elements on, release the GIL while checking them.
cdef Py_ssize_t _MIN_SIZE_NOGIL = 1 << 14

ctypedef fused real:
    float
    double


def expm1(cnp.ndarray x not None):
    """Return exp(x) - 1, precise near 0. For complex zeros, infinities and nan, subtract 1 from np.exp(x).

    np.expm1 returns nan for most of these values.
    """
    out = np.expm1(x)
    if not cnp.PyArray_ISCOMPLEX(x):
        return out
    special = ~np.isfinite(x) | np.equal(x, 0)
    return np.where(special, np.exp(x) - 1, out) if special.any() else out


def log1p(cnp.ndarray x not None):
    """Return log(1 + x), precise near 0, also for complex numbers, whose real part np.log1p rounds to 0."""
    out = np.log1p(x)
    if not cnp.PyArray_ISCOMPLEX(x):
        return out
    near = np.abs(x) < 0.5
    if not near.any():
        return out
    out = np.asarray(out)
    real, imaginary = np.real(x)[near], np.imag(x)[near]
    # abs(1 + x)**2 - 1, which is 0 if the squares are too small for the dtype.
    excess = real * (2 + real) + imaginary * imaginary
    np.real(out)[near] = np.where(excess == 0, real, 0.5 * np.log1p(excess))
    return out


def sign(cnp.ndarray x not None):
    """Return -1, 0 or 1; x / abs(x) for complex numbers, where an infinite part gives nan, as in PyTorch."""
    if not cnp.PyArray_ISCOMPLEX(x):
        return np.sign(x)
    size = np.abs(x)
    size = np.where(size == 0, size.dtype.type(1), size)
    out = np.empty_like(x)
    np.divide(np.real(x), size, out=np.real(out))
    np.divide(np.imag(x), size, out=np.imag(out))
    return out


def conjugate(cnp.ndarray x not None):
    """Return the complex conjugate as a copy in the dtype of `x`. NumPy's function returns int8 for bools."""
    return x.copy() if cnp.PyArray_TYPE(x) == cnp.NPY_BOOL else np.conjugate(x)


def floor_divide(x1, x2, out=None):
    """Return the quotient rounded down. Infinity over finite is infinity, finite over infinity is 0.

    NumPy returns nan for infinity over finite, and -1 for finite over infinity if the signs differ.
    """
    if _is_half(x1) and _is_number(x2):
        # A divisor beside float16 is a float32, as in `_with_number`.
        found = floor_divide(x1.astype(np.float32), x2).astype(np.float16)
        if out is None:
            return found
        np.copyto(out, found, casting="same_kind")
        return out
    if not _has_infinity(x1) and not _has_infinity(x2):
        return _divide_down(x1, x2) if out is None else _divide_down(x1, x2, out)
    # If exactly one operand is infinite, the plain quotient needs no rounding.
    is_one_infinite = np.logical_xor(_are_infinite(x1), _are_infinite(x2))
    found = np.where(is_one_infinite, np.divide(x1, x2), _divide_down(x1, x2))
    if out is None:
        return found
    np.copyto(out, found, casting="same_kind")
    return out


# Compiled, because for a few elements two passes of NumPy take three times as long as the division.
cdef bint _has_infinity(object x) except -1:
    cdef cnp.ndarray array
    if not isinstance(x, cnp.ndarray):
        return isinstance(x, (float, np.floating)) and fabs(<double>x) == INFINITY
    array = <cnp.ndarray>x
    if not cnp.PyArray_ISFLOAT(array):
        return False
    if cnp.PyArray_ISBEHAVED_RO(array) and cnp.PyArray_ISONESEGMENT(array):
        if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT:
            return _is_any_infinite(<const float*>cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array))
        if cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE:
            return _is_any_infinite(<const double*>cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array))
    return bool(np.isinf(array).any())


cdef bint _is_any_infinite(const real* x, Py_ssize_t count) noexcept:
    if count < _MIN_SIZE_NOGIL:
        return _find_infinity(x, count)
    with nogil:  # the caller's array keeps the memory alive
        return _find_infinity(x, count)


cdef bint _find_infinity(const real* x, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    cdef real infinity = INFINITY
    cdef int found = 0
    for i in range(count):  # without a break, so that the compiler vectorises it
        found |= (x[i] == infinity) | (x[i] == -infinity)
    return found


cdef object _are_infinite(object x):
    if isinstance(x, cnp.ndarray):
        return np.isinf(x) if cnp.PyArray_ISFLOAT(<cnp.ndarray>x) else np.False_
    return np.bool_(_has_infinity(x))


def corrected_tanh(cnp.ndarray x not None):
    """Return the hyperbolic tangent. If the real part of `x` is infinite, the imaginary part is a zero.

    This zero has the sign of the imaginary part of `x`. In NumPy, as in C, it has the sign of the sine of
    twice the imaginary part.
    """
    out = tanh(x)
    if not cnp.PyArray_ISCOMPLEX(x):
        return out
    imaginary = np.imag(x)
    special = np.isinf(np.real(x)) & np.isfinite(imaginary)
    if special.any():
        out = np.array(out)
        np.imag(out)[special] = np.copysign(0.0, imaginary[special])
    return out


# --- Choices ------------------------------------------------------------------------------------------------
#
# Elementwise choice between two values, on the thread pool.

cdef extern from "tensor/kernels/choices.h" namespace "disposescope::kernels" nogil:
    struct Choice:
        const unsigned char* condition
        Py_ssize_t conditions
        const void* a
        const void* b
        void* out
        Py_ssize_t step_of_a
        Py_ssize_t step_of_b
    struct Choices:
        Loop choose[4]
        BinaryLoops keep_nonzero
    const Choices* choices_kernels_of(int level)

cdef const Choices* _choices = choices_kernels_of(simd_level)

keep_nonzero = binary_kernel(_choices.keep_nonzero, keep_nonzero_ufunc, False)


cdef int _place(Py_ssize_t itemsize) noexcept:
    return 0 if itemsize == 1 else 1 if itemsize == 2 else 2 if itemsize == 4 else 3 if itemsize == 8 else -1


cdef bint _repeats(cnp.ndarray condition, cnp.ndarray like) noexcept:
    """Return whether `condition` broadcasts to `like` by repeating all its elements in order."""
    cdef int i, missing = cnp.PyArray_NDIM(like) - cnp.PyArray_NDIM(condition)
    cdef bint has_begun = False
    if missing < 0:
        return False
    for i in range(cnp.PyArray_NDIM(condition)):
        if cnp.PyArray_DIM(condition, i) == cnp.PyArray_DIM(like, missing + i):
            has_begun = has_begun or cnp.PyArray_DIM(condition, i) != 1
        elif has_begun or cnp.PyArray_DIM(condition, i) != 1:
            return False
    return True


def choose(cnp.ndarray condition not None, cnp.ndarray a not None, cnp.ndarray b not None):
    """Return `a` where `condition` is true and `b` elsewhere, or None for unsupported arrays.

    `condition` is an array of bools. `a` and `b` have the same numeric dtype, and the same shape or no
    dimensions. All are C-contiguous. `condition` has the same shape, or that of the last dimensions, such as
    one mask for all samples of a batch.

    >>> import numpy as np
    >>> choose(np.array([True, False]), np.array([1.0, 2.0]), np.array(0.5)).tolist()
    [1.0, 0.5]
    """
    cdef Choice choice
    cdef cnp.ndarray out, x, like = a if cnp.PyArray_NDIM(a) != 0 else b
    cdef Py_ssize_t grain
    cdef int place = _place(cnp.PyArray_ITEMSIZE(a))
    if cnp.PyArray_TYPE(condition) != cnp.NPY_BOOL or not cnp.PyArray_IS_C_CONTIGUOUS(condition):
        return None
    if place < 0 or cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(b) or a.dtype.kind not in "biufc":
        return None
    if cnp.PyArray_NDIM(like) == 0:
        like = condition
    if not _repeats(condition, like):
        return None
    for x in (a, b):
        if not cnp.PyArray_IS_C_CONTIGUOUS(x) or not cnp.PyArray_ISBEHAVED_RO(x):
            return None
        # The kernel reads complex numbers as integers of their size, which may need a stricter alignment.
        if <uintptr_t>cnp.PyArray_DATA(x) % <uintptr_t>cnp.PyArray_ITEMSIZE(x):
            return None
        if cnp.PyArray_NDIM(x) != 0 and not cnp.PyArray_SAMESHAPE(x, like):
            return None
    out = np.empty((<object> like).shape, a.dtype)
    choice.condition = <const unsigned char*> cnp.PyArray_DATA(condition)
    choice.conditions = max(cnp.PyArray_SIZE(condition), 1)
    choice.a = cnp.PyArray_DATA(a)
    choice.b = cnp.PyArray_DATA(b)
    choice.out = cnp.PyArray_DATA(out)
    choice.step_of_a = 1 if cnp.PyArray_NDIM(a) != 0 else 0
    choice.step_of_b = 1 if cnp.PyArray_NDIM(b) != 0 else 0
    with nogil:  # the arrays above keep the memory alive
        grain = even_grain(cnp.PyArray_SIZE(out), CHEAP // cnp.PyArray_ITEMSIZE(out))
        parallel_for(cnp.PyArray_SIZE(out), grain, _choices.choose[place], &choice)
    return out
