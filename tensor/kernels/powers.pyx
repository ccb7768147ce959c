"""Powers of float32 and float64 with one exponent for all elements, by products and square roots.

``np.power`` takes 60 to 90 ns for a negative base on processors without AVX-512; a product takes less than 1
ns. Squares and cubes have the same bits as ``x * x`` and ``x * x * x``. The exponents 0.5, 1.5 and -0.5 use
square roots, with errors below 1.5 ulp. Other integer exponents from -64 to 64 have errors of at most 0.51
ulp for float32 and 1 ulp for float64, and 1.5 ulp for subnormal results. x**0 is 1 for every x. nan,
infinities and signed zeros follow IEEE 754 (``pow``), except that x**0.5 is a square root.
"""

cimport cython
cimport numpy as cnp

from tensor.kernels.elementwise cimport (
    CHEAP,
    EXPENSIVE,
    Loop,
    Loops,
    Operands,
    is_plain,
    may_write,
    new_like,
    run_loop,
    slope_kernel,
)
from tensor.kernels.simd cimport simd_level

import numpy as np

cnp.import_array()

cdef extern from "tensor/kernels/powers.h" namespace "disposescope::kernels" nogil:
    struct Powers:
        Loops whole
        Loops cube, half, three_halves, minus_half
        Loops cube_slope, product_with_number
    const Powers* powers_kernels_of(int level)

cdef const Powers* _loops = powers_kernels_of(simd_level)

# The largest exponent that is computed by products. The errors of higher powers would be too large.
cdef enum:
    MOST = 64


cdef bint _find(double n, Loops* loops, Py_ssize_t* bytes_in_piece) noexcept:
    """Find the loops for the exponent `n`. Return False to use NumPy, which is as fast for -1, 0, 1 and 2."""
    bytes_in_piece[0] = CHEAP
    if n == 3.0:
        loops[0] = _loops.cube
    elif n == 0.5:
        loops[0] = _loops.half
    elif n == 1.5:
        loops[0] = _loops.three_halves
    elif n == -0.5:
        loops[0] = _loops.minus_half
    elif -MOST <= n <= MOST and n == <double> <int> n and not -1 <= n <= 2:
        loops[0] = _loops.whole
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
        if (type(n) is not int and type(n) is not float) or not -MOST <= n <= MOST:
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
cube_slope = slope_kernel(_loops.cube_slope, CHEAP)
product_with_number = slope_kernel(_loops.product_with_number, CHEAP)
