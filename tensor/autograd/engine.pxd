"""Gradients on their way through the graph. For `cimport`."""

from tensor.memory.buffer cimport Share
from tensor.tape.nodes cimport Node


cdef class Arrival:
    # The node, and how many of its users' gradients have not come in yet.
    cdef readonly Node node
    cdef Py_ssize_t users
    # None, an array, or if backward is recorded a tensor. Of a call of a user's function: a list, an Arrival or None for
    # each output.
    cdef public object value
    # Keeps an array as it is where tensors share its memory, or None.
    cdef Share share
    # Whether nobody else looks at the memory of the array: it may be written over, and handed out as it is.
    cdef bint is_owned
