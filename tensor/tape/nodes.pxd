"""The tape's nodes and the rules that they follow. For `cimport`."""


cdef class Plan:
    # Where each saved value comes from: an input's or the output's place, or a parameter's name.
    cdef public tuple saves
    cdef public bint saves_out
    # For each input that wants a gradient: its place, the function, and the places of what the function asks
    # for.
    cdef public tuple steps
    # The function that gives all gradients at once, which inputs want one, and the places of what it asks
    # for; or None.
    cdef public tuple together
    cdef Plan _bare


cdef class Rule:
    cdef readonly str name
    cdef readonly object functions
    cdef readonly dict derived
    cdef readonly object together
    cdef readonly bint is_differentiable
    cdef readonly dict plans
    # Those for one and two inputs once more.
    cdef Plan unary_plan
    cdef Plan first_plan
    cdef Plan second_plan
    cdef Plan both_plan

    cpdef Plan plan(self, tuple wanted)


cdef class Node:
    cdef public Rule rule
    cdef public Plan plan
    # The nodes of the inputs; None for those that want no gradient.
    cdef public tuple next
    # The values that `plan.saves` names, in its order; None once backward has used them; or a Deferred.
    cdef public object saved
    # For each of them the Share that keeps it as it is, or None.
    cdef public tuple holds
    cdef public object shape
    cdef public object dtype
    # What the user wants called with the gradient of the output.
    cdef public object hooks
    # Set while anomalies are looked for: the user's lines by which the op was recorded.
    cdef public str site
    # How to make the output again, noted in a budget (`tensor.tape.recipes`); None outside.
    cdef public object recipe
    # Backward uses the saved values now: they stay in memory.
    cdef public bint is_in_use
    # Those of `next`, `saved`, `holds` and `shape`, told as overhead.
    cdef int bytes_of_tuples
    cdef object __weakref__

    cdef void count_tuples(self) noexcept
    cpdef int save_output(self, object array, object share) except -1


cdef class Leaf(Node):
    # A weak reference to the tensor.
    cdef public object home


cdef class Ticks:
    cdef public long left


cdef Ticks ticks
