"""Arithmetic on values that lie in the tensors themselves. For `cimport`."""

from tensor.core.tensor cimport TensorCore
from tensor.kernels.elementwise cimport UnaryKernel
from tensor.tape.nodes cimport Rule


cdef enum Arithmetic:
    NO_ARITHMETIC
    ADDITION
    SUBTRACTION
    MULTIPLICATION
    DIVISION


# What is computed as NumPy's ufunc `kernel` does, or NO_ARITHMETIC.
cdef Arithmetic arithmetic_of(object kernel)
# What the ufunc gives for two operands, as a new tensor, recorded if `rule` derives it; None: left to NumPy.
cdef TensorCore compute_inline(Arithmetic arithmetic, Rule rule, object x1, object x2)
# The same for what `kernel` computes.
cdef TensorCore compute_inline_unary(UnaryKernel kernel, Rule rule, object x)
