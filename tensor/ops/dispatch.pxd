"""Run ops on tensors: compute the result, record it, and create the new tensor. For `cimport`."""

cimport numpy as cnp

from tensor.core.promotion cimport Promotion
from tensor.core.tensor cimport TensorCore
from tensor.kernels.elementwise cimport BinaryKernel, UnaryKernel
from tensor.tape.recording cimport Node, Rule


cdef enum Arithmetic:
    NO_ARITHMETIC
    ADDITION
    SUBTRACTION
    MULTIPLICATION
    DIVISION


# Return the operation of NumPy's ufunc `kernel`, or NO_ARITHMETIC.
cdef Arithmetic arithmetic_of(object kernel)
# Return the result for two operands as a new tensor, recorded with `rule` if necessary; None to use NumPy.
cdef TensorCore compute_inline(Arithmetic arithmetic, Rule rule, object x1, object x2)
# The same for a `kernel` with one operand.
cdef TensorCore compute_inline_unary(UnaryKernel kernel, Rule rule, object x)


cdef class Op:
    cdef readonly Rule rule
    cdef readonly object kernel
    cdef object computed(self, object a, object b)
    cdef object explained(self, object error, object a, object b)
    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out)
    cdef TensorCore wrapped(self, cnp.ndarray out, Node node)


cdef class UnaryOp(Op):
    cdef Promotion promotion
    # Whether bools must be cast to int64 first, because NumPy's result would be int8 (square).
    cdef bint counts_bools
    # The compiled kernel, which is tried first, or None.
    cdef UnaryKernel compiled
    cdef TensorCore run(self, object x)
    cdef cnp.ndarray _promoted(self, cnp.ndarray a)


cdef class BinaryOp(Op):
    # The operation to compute without NumPy for few elements, or NO_ARITHMETIC.
    cdef Arithmetic arithmetic
    cdef Promotion promotion
    cdef BinaryKernel compiled
    # Whether the kernel takes arrays of bfloat16, because its result depends on their precision (nextafter).
    cdef bint takes_bfloat16
    cdef object run(self, object x1, object x2, bint is_operator)
    cpdef object as_bfloat16(self, object x, bint is_second)


# Return a tensor over `out`, which NumPy computed from `array`, the array of `x`: a view or a copy.
cpdef TensorCore over(TensorCore x, cnp.ndarray array, cnp.ndarray out, Rule rule, tuple saved=*)
