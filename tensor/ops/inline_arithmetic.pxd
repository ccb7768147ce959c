"""Arithmetic on inline values, which are stored inside the tensor objects. For `cimport`."""

from tensor.core.tensor cimport TensorCore
from tensor.kernels.elementwise cimport UnaryKernel
from tensor.tape.nodes cimport Rule


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
