"""Recording of ops. For `cimport`."""

cimport numpy as cnp

from tensor.core.inline_values cimport InlineValues
from tensor.core.tensor cimport TensorCore
from tensor.tape.nodes cimport Node, Rule

# The node of an op with `inputs` (tensors, arrays, numbers) and the result `out`; None if none is needed.
cpdef Node record(Rule rule, object inputs, cnp.ndarray out, dict parameters)
# The same for one or two inputs: `x` and their arrays (or numbers) `a`.
cdef Node record_unary(Rule rule, object x, object a, cnp.ndarray out)
cdef Node record_binary(Rule rule, object x1, object x2, object a, object b, cnp.ndarray out)
# The same if `out`, float32 or float64, has no array; `x` are tensors or numbers.
cdef Node record_inline_unary(Rule rule, object x, InlineValues* out)
cdef Node record_inline_binary(Rule rule, object x1, object x2, InlineValues* out)
# The node of an op whose one input never had a tensor: `before` is the node of the input, and `input` its
# array, which belongs to the node from now on; None if the derivative needs only `out`.
cdef Node record_after(Rule rule, object before, cnp.ndarray input, cnp.ndarray out)
# The node of a view of `x`; `saved` has the arguments of the derivative, in order.
cdef Node record_view(Rule rule, TensorCore x, cnp.ndarray out, tuple saved)
# In a budget, note in the new `node`, which may be None, that ``kernel(*arrays)`` of its inputs computes its
# output again.
cpdef int remember(Node node, object kernel, object inputs, dict parameters=*) except -1
# A new tensor over `out` with the history `node`, which may be None.
cpdef TensorCore wrap_recorded(cnp.ndarray out, Node node)
# A new tensor with these values inline, with the history `node`, which may be None.
cdef TensorCore wrap_inline(InlineValues* values, Node node)
# The recorder of this context: False, True, or a Recorder.
cdef object recorder()
