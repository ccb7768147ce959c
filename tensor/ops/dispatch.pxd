"""The one road from a call to a new tensor. For `cimport`."""

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
    # Whether bools are counted as integers: NumPy's square of them is int8.
    cdef bint counts_bools
    # Asked first; None if there is none.
    cdef UnaryKernel compiled
    cdef TensorCore run(self, object x)
    cdef cnp.ndarray _promoted(self, cnp.ndarray a)
    cdef cnp.ndarray _computed(self, cnp.ndarray a)


cdef class BinaryOp:
    cdef readonly Rule rule
    cdef readonly object kernel
    # What of it is done without NumPy for few elements.
    cdef Arithmetic arithmetic
    cdef Promotion promotion
    cdef BinaryKernel compiled
    cdef object run(self, object x1, object x2, bint is_operator)
    cdef cnp.ndarray _computed(self, object a, object b)


# A tensor over `out`, found in `array`, that of `x`: a view of it, or a copy that NumPy needed. `rule`
# derives it, None where nothing shall, and asks for what is `saved`, none of which is an array.
cpdef TensorCore over(TensorCore x, cnp.ndarray array, cnp.ndarray out, Rule rule, tuple saved=*)
