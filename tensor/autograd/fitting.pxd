"""Converts gradients to the shape and dtype of their inputs. For `cimport`."""

cimport numpy as cnp

from tensor.tape.nodes cimport Node

# Returns the gradient in the shape and dtype of the node's values. Broadcast dimensions are summed.
cdef cnp.ndarray fitting(object gradient, Node node)
# Returns a result of NumPy as an array: without dimensions it is a scalar.
cdef cnp.ndarray as_array(object result)
