"""Run ops on tensors: compute the result, record it, and create the new tensor. For `cimport`."""

cimport numpy as cnp

from tensor.core.tensor cimport TensorCore
from tensor.kernels.elementwise cimport BinaryKernel, UnaryKernel
from tensor.ops.inline_arithmetic cimport Arithmetic
from tensor.ops.promotion cimport Promotion
from tensor.tape.nodes cimport Rule


cdef class UnaryOp:
    cdef readonly Rule rule
    cdef readonly object kernel
    cdef Promotion promotion
    # Whether bools must be cast to int64 first, because NumPy's result would be int8 (square).
    cdef bint counts_bools
    # The compiled kernel, which is tried first, or None.
    cdef UnaryKernel compiled
    cdef TensorCore run(self, object x)
    cdef cnp.ndarray _promoted(self, cnp.ndarray a)
    cdef cnp.ndarray _computed(self, cnp.ndarray a)


cdef class BinaryOp:
    cdef readonly Rule rule
    cdef readonly object kernel
    # The operation to compute without NumPy for few elements, or NO_ARITHMETIC.
    cdef Arithmetic arithmetic
    cdef Promotion promotion
    cdef BinaryKernel compiled
    cdef object run(self, object x1, object x2, bint is_operator)
    cdef cnp.ndarray _computed(self, object a, object b)


# Return a tensor over `out`, which NumPy computed from `array`, the array of `x`: a view or a copy.
cpdef TensorCore over(TensorCore x, cnp.ndarray array, cnp.ndarray out, Rule rule, tuple saved=*)
