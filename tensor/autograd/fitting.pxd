"""Conversion of gradients to the shape and dtype of their inputs. For `cimport`."""

cimport numpy as cnp

from tensor.tape.nodes cimport Node

# Return the gradient in the shape and dtype of the node's values. Sum over broadcast dimensions.
cdef cnp.ndarray fitting(object gradient, Node node)
# Return a result of NumPy as an array. NumPy returns a scalar for a result without dimensions.
cdef cnp.ndarray as_array(object result)
