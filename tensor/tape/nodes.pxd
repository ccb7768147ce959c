"""Nodes of the tape and the derivative rules of ops. For `cimport`."""


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


cdef Ticks ticks
