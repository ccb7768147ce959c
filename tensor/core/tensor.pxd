"""Tensors, and functions that create them. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject

from tensor.core.storage cimport StorageReference
from tensor.memory.buffer cimport Share


cdef class TensorCore(StorageReference):
    pass


cdef class Handle(StorageReference):
    pass


cdef extern from "Python.h":
    PyObject* type_of "(PyObject *)Py_TYPE"(object x)

# The class of the tensors that ops create.
cdef PyObject* tensor_type


cdef inline bint is_tensor(object x):
    """Return whether `x` is a tensor. Check the type first: isinstance searches about 30 base classes."""
    return type_of(x) == tensor_type or isinstance(x, TensorCore)


# Return a tensor without memory, not counted and not registered.
cdef TensorCore new_tensor()
# Return a tensor over the new array, counted and registered with the current scope.
cpdef TensorCore wrap(cnp.ndarray array)
# Return a tensor over the new array, owned by no scope: for gradients and the state of optimizers.
cpdef TensorCore wrap_unowned(cnp.ndarray array)
# Return a new tensor with the values of `share`.
cpdef TensorCore wrap_share(Share share)
cpdef TensorCore wrap_share_unowned(Share share)
# Return a tensor over `out`, which NumPy computed from `array`, the array of `x`. If `out` is a view, the
# tensor joins the storage of `x`; else it owns the copy.
cpdef TensorCore view_of(TensorCore x, cnp.ndarray array, cnp.ndarray out)
