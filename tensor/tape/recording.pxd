"""Recording of ops. For `cimport`."""

cimport numpy as cnp

from tensor.core.inline_values cimport InlineValues
from tensor.core.tensor cimport TensorCore
from tensor.tape.nodes cimport Node, Rule

# Return the node of an op with `inputs` (tensors, arrays, numbers) and the result `out`, or None if none is
# needed.
cpdef Node record(Rule rule, object inputs, cnp.ndarray out, dict parameters)
# The same for one or two inputs: `x` are the tensors or numbers, `a` and `b` their arrays (or numbers).
cdef Node record_unary(Rule rule, object x, object a, cnp.ndarray out)
cdef Node record_binary(Rule rule, object x1, object x2, object a, object b, cnp.ndarray out)
# The same for an inline result `out`, which is float32 or float64. `x` are tensors or numbers.
cdef Node record_inline_unary(Rule rule, object x, InlineValues* out)
cdef Node record_inline_binary(Rule rule, object x1, object x2, InlineValues* out)
# The node of an op whose only input has no tensor. `before` is the node of the input, and `input` its array,
# which the node takes over; None if the derivative only needs `out`.
cdef Node record_after(Rule rule, object before, cnp.ndarray input, cnp.ndarray out)
# The node of a view of `x`. `saved` are the arguments of the derivative, in order.
cdef Node record_view(Rule rule, TensorCore x, cnp.ndarray out, tuple saved)
# In a budget, record in the new `node` (or None) that ``kernel(*arrays)`` of its inputs computes its output
# again.
cpdef int remember(Node node, object kernel, object inputs, dict parameters=*) except -1
# Set the next histories of tensors, all or none: a dict of pairs of a tensor and its next node.
cpdef int set_histories(dict histories) except -1
# Return a new tensor over `out` with the history `node`, which may be None.
cpdef TensorCore wrap_recorded(cnp.ndarray out, Node node)
# Return a new tensor with these inline values and the history `node`, which may be None.
cdef TensorCore wrap_inline(InlineValues* values, Node node)
# The recording mode of this context: False, True, or a Recorder.
cdef object recorder()
