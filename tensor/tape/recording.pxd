"""Modes of recording, nodes with their derivative rules, and functions that record ops. For `cimport`."""

cimport numpy as cnp

from tensor.core.tensor cimport InlineValues, TensorCore

# Set whether ops of this context are recorded. `mode` is False, True or a Recorder. Works even if memory is
# short.
cdef int set_recording(object mode) except -1


cdef class Plan:
    # The source of each saved value: the index of an input or of the output, or the name of a parameter.
    cdef public tuple saves
    cdef public bint saves_out
    # For each input that needs a gradient: its index, the function, and the indices of the function's
    # arguments.
    cdef public tuple steps
    # For each step the indices of the saved values that no later step needs.
    cdef public tuple done
    # The function that returns all gradients at once, the inputs that need one, and the indices of its
    # arguments; or None.
    cdef public tuple together
    cdef Plan _without_saves


cdef class Rule:
    cdef readonly str name
    cdef readonly object functions
    cdef readonly dict derived
    cdef readonly object together
    cdef readonly bint is_differentiable
    cdef readonly dict plans
    # The plans for one and two inputs, for quick access.
    cdef Plan unary_plan
    cdef Plan first_plan
    cdef Plan second_plan
    cdef Plan both_plan

    cpdef Plan plan(self, tuple wanted)


cdef class Node:
    cdef public Rule rule
    cdef public Plan plan
    # The nodes of the inputs; None for an input that needs no gradient.
    cdef public tuple next
    # The values that `plan.saves` names, in its order; None once backward has used them; or a Deferred.
    cdef public object saved
    # For each saved value the Share that protects it from later writes, or None.
    cdef public tuple holds
    cdef public object shape
    cdef public object dtype
    # The user's hooks for the gradient of the output.
    cdef public object hooks
    # In `detect_anomaly`: the user's lines that recorded the op.
    cdef public str site
    # How to compute the output again, in a budget (`tensor.tape.recipes`); None outside.
    cdef public object recipe
    # Whether backward uses the saved values now, so that they must stay in memory.
    cdef public bint is_in_use
    # The bytes of the tuples `next`, `saved`, `holds` and `shape`, which count as overhead.
    cdef int bytes_of_tuples
    cdef object __weakref__

    cdef void count_tuples(self) noexcept
    cpdef int save_output(self, object array, object share) except -1


cdef class Leaf(Node):
    # A weak reference to the leaf's tensor or handle.
    cdef public object home


cdef class Ticks:
    # The ops left until the next check for growing graphs.
    cdef public long left
    # The function that checks, which `tensor.tape.growth` sets.
    cdef public object check


cdef Ticks ticks

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
