"""Tensors, and how they are made. For `cimport`."""

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

# The class of the tensors that operations make.
cdef PyObject* tensor_type


cdef inline bint is_tensor(object x):
    """Tell whether `x` is a tensor: of that class at once, for it has some 30 bases to look through."""
    return type_of(x) == tensor_type or isinstance(x, TensorCore)


# A tensor that holds nothing yet, and is neither counted nor registered.
cdef TensorCore new_tensor()
# A new tensor over a new array, counted and registered with the current scope.
cpdef TensorCore wrap(cnp.ndarray array)
# The same, owned by no scope: a gradient, an optimizer's state.
cpdef TensorCore wrap_unowned(cnp.ndarray array)
# A new tensor with the values of `share`.
cpdef TensorCore wrap_share(Share share)
cpdef TensorCore wrap_share_unowned(Share share)
# A new tensor over `out`, found by NumPy in `array`, that of `x`: on the same storage, or a copy that NumPy
# needed.
cpdef TensorCore view_of(TensorCore x, cnp.ndarray array, cnp.ndarray out)
