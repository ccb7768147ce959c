"""Gradients in the shape and dtype of what they are for. For `cimport`."""

cimport numpy as cnp

from tensor.tape.nodes cimport Node

# The gradient in the shape and dtype of the node's values: broadcasting is undone by sums.
cdef cnp.ndarray fitting(object gradient, Node node)
# What NumPy returns as an array: it gives scalars where the result has no dimensions.
cdef cnp.ndarray as_array(object result)
