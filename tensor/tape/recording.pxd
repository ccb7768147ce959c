"""Recording of ops. For `cimport`."""

cimport numpy as cnp

from tensor.core.inline_values cimport InlineValues
from tensor.core.tensor cimport TensorCore
from tensor.tape.nodes cimport Node, Rule

# The node of an op with `inputs` (tensors, arrays, numbers) that gave `out`; None when none is wanted.
cpdef Node record(Rule rule, object inputs, cnp.ndarray out, dict parameters)
# The same for one or two inputs: `x` and their arrays (or numbers) `a`.
cdef Node record_unary(Rule rule, object x, object a, cnp.ndarray out)
cdef Node record_binary(Rule rule, object x1, object x2, object a, object b, cnp.ndarray out)
# The same where the values of `out`, of float32 or float64, lie in no array; `x` are tensors or numbers.
cdef Node record_inline_unary(Rule rule, object x, InlineValues* out)
cdef Node record_inline_binary(Rule rule, object x1, object x2, InlineValues* out)
# The node of an op of one input that no tensor ever held: `before` is the input's own node, and `input` its
# array, which belongs to the node from now on; None if the derivative needs `out` alone.
cdef Node record_after(Rule rule, object before, cnp.ndarray input, cnp.ndarray out)
# The node of a view of `x`; `saved` is what the derivative asks for, in that order.
cdef Node record_view(Rule rule, TensorCore x, cnp.ndarray out, tuple saved)
# Let the new `node`, which may be None, know in a budget that ``kernel(*arrays)`` of its inputs makes its
# output.
cpdef int remember(Node node, object kernel, object inputs, dict parameters=*) except -1
# A new tensor over `out` with the history `node`, which may be None.
cpdef TensorCore wrap_recorded(cnp.ndarray out, Node node)
# A new tensor with these values inline, with the history `node`, which may be None.
cdef TensorCore wrap_inline(InlineValues* values, Node node)
# What the recorder of this context is: False, True, or a Recorder.
cdef object recorder()
