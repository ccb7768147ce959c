"""Calls of several modules in order. A linear layer and the activation after it run as one op."""

from cpython.object cimport PyObject

from nn.functional.derivatives import RULES
from nn.layers.activations import GELU, ReLU, Sigmoid, SiLU, Tanh
from nn.layers.linear import Linear
from nn.module.calling import is_plain
from tensor import TensorDisposedError
from tensor.ops.dispatch import apply_affine, apply_affine_then

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL

cdef object _linear_forward = Linear.forward
cdef object _LINEAR = RULES["linear"]
# For each activation class: the name of its derivative in RULES, and its original ``forward``.
cdef dict _ACTIVATIONS = {
    ReLU: ("relu", ReLU.forward),
    GELU: ("gelu", GELU.forward),
    Sigmoid: ("sigmoid", Sigmoid.forward),
    SiLU: ("silu", SiLU.forward),
    Tanh: ("tanh", Tanh.forward),
}
cdef dict _GELU_RULES = {"none": "gelu", "tanh": "gelu_by_tanh"}


def children_of(module) -> list:
    """Return the direct submodules of `module`, in order."""
    cdef dict own = module.__dict__
    cdef list found = []
    cdef PyObject* value
    for name, kind in (<dict>own["_kinds"]).items():
        if kind == "module":
            value = PyDict_GetItemWithError(own, name)
            if value != NULL and <object>value is not None:
                found.append(<object>value)
    return found


def run_in_order(list modules not None, input):
    """Call `modules` in order, each with the output of the one before, and return the last output."""
    cdef Py_ssize_t i = 0, end = len(modules)
    while i < end:
        module = modules[i]
        i += 1
        if type(module) is Linear and _may_skip_call(module, Linear, _linear_forward):
            activation = _activation_of(modules[i]) if i < end else None
            output = _fused_linear(module.__dict__, activation, input)
            if output is not None:
                input = output
                i += activation is not None
                continue
        input = module(input)
    return input


cdef object _activation_of(object module):
    """Return the name of the derivative of `module` if it is an activation of a fused op, else None."""
    found = _ACTIVATIONS.get(type(module))
    if found is None:
        return None
    name, forward = found
    if not _may_skip_call(module, type(module), forward):
        return None
    return name if name != "gelu" else _GELU_RULES.get(module.__dict__.get("approximate"))


cdef bint _may_skip_call(object module, object kind, object forward) except -1:
    """Return whether the call of `module` can be skipped: it has no hooks, and no ``forward`` of a user."""
    return is_plain(module) and kind.forward is forward and "forward" not in module.__dict__


cdef object _fused_linear(dict own, activation, input):
    """Return the output of a linear layer, followed by `activation` unless it is None.

    `own` is the ``__dict__`` of the layer. One op saves a pass over the output. It also saves the memory of
    the layer's output, unless backward of `GELU` or `SiLU` needs it. Return None if the operands do not allow
    one op, or if a tensor is missing or disposed: calls of the modules raise better errors.
    """
    cdef PyObject* weight = PyDict_GetItemWithError(own, "weight")
    cdef PyObject* bias = PyDict_GetItemWithError(own, "bias")
    if weight == NULL or bias == NULL:
        return None
    try:
        if activation is None:
            return apply_affine(_LINEAR, input, <object>weight, <object>bias)
        return apply_affine_then(_LINEAR, activation, input, <object>weight, <object>bias)
    except TensorDisposedError:
        return None
