"""Affine maps as recorded ops, for ``nn.functional.linear``."""

cimport numpy as cnp

from tensor.core.bfloat16 cimport is_bfloat16, is_inexact
from tensor.core.storage cimport array_of
from tensor.core.tensor cimport TensorCore, is_tensor
from tensor.kernels.affine cimport affine, affine_then
from tensor.kernels.context cimport enter, leave
from tensor.tape.nodes cimport Rule
from tensor.tape.recording cimport record, record_after, recorder, remember, wrap_recorded

from functools import partial

from tensor._errors import InvalidArgumentError
from tensor.kernels import exponentials, gaussian
from tensor.memory.limits import OutOfMemoryError, out_of_memory
from tensor.ops.dispatch import apply
from tensor.ops.messages import explain
from tensor.tape.rules import RULES

cnp.import_array()

cdef Rule _RELU = RULES["relu"]
# The kernels of activations that an affine map can compute in the same pass, by the names of their rules.
cdef dict _KERNELS = {
    "gelu": gaussian.gelu,
    "gelu_by_tanh": gaussian.gelu_by_tanh,
    "sigmoid": exponentials.sigmoid,
    "silu": exponentials.silu,
    "tanh": exponentials.tanh,
}


def apply_affine(Rule rule not None, x, weight, bias) -> TensorCore:
    """Return ``x @ weight.T + bias`` of tensors, as an op with the derivatives of `rule`. `bias` may be None.

    If `weight` has one dimension, the result lacks the last dimension.
    """
    return _run(rule, x, weight, bias, None)


def apply_affine_then(Rule rule not None, str activation not None, x, weight, bias):
    """Return ``activation(x @ weight.T + bias)``, computed in one pass. Record both ops.

    `activation` is "relu", "gelu", "gelu_by_tanh", "sigmoid", "silu" or "tanh". Return None if one pass is
    not possible for these tensors.
    """
    return _run(rule, x, weight, bias, activation)


cdef TensorCore _run(Rule rule, object x, object weight, object bias, str activation):
    cdef cnp.ndarray a = _array_of("input", x), w = _array_of("weight", weight), before = None, out = None
    cdef object b = None if bias is None else _array_of("bias", bias)
    cdef Rule last = None if activation is None else _RELU if activation == "relu" else RULES[activation]
    cdef bint keeps
    if is_bfloat16(a) or is_bfloat16(w) or is_bfloat16(b):
        return None if activation is not None else _run_narrow(rule, x, weight, bias, w)
    if is_inexact(a) != is_inexact(w):
        # As in other ops, integers beside floats are cast to the dtype of the floats.
        if is_inexact(a):
            return _run(rule, x, weight.to((<object>a).dtype), bias, activation)
        return _run(rule, x.to((<object>w).dtype), weight, bias, activation)
    if cnp.PyArray_NDIM(w) == 1:
        return _of_one_output(rule, x, weight, bias) if activation is None else None
    context = enter(True)
    failure = None
    try:
        if last is None or last is _RELU:
            out = affine(a, w, b, last is not None)
        else:
            keeps = _is_recorded(x, weight, bias) and 0 in last.plan((True,)).saves
            found = affine_then(a, w, b, _KERNELS[activation], keeps)
            if found is None:
                return None
            before, out = found
    except OutOfMemoryError:
        raise
    except MemoryError:
        failure = out_of_memory()  # raised below: here its __context__ would keep arrays alive
    except (TypeError, ValueError) as error:
        failure = explain("linear", error, [a, w] if b is None else [a, w, b])
    finally:
        leave(context, True)
    if failure is not None:
        raise failure
    inputs = (x, weight) if bias is None else (x, weight, bias)
    node = record(rule, inputs, out, {})
    if node is not None and node.recipe is not None:
        remember(node, partial(_map_again, activation), inputs)
    if last is not None:
        node = record_after(last, node, before, out)
        if node is not None and node.recipe is not None:
            if last is _RELU:
                node.recipe.remember_like(node.next[0].recipe, _rectified_again)
            else:
                node.recipe.remember_after(node.next[0].recipe, _KERNELS[activation], node)
    return wrap_recorded(out, node)


cdef TensorCore _run_narrow(Rule rule, object x, object weight, object bias, cnp.ndarray w):
    """Return the affine map for tensors of which some are bfloat16."""
    if cnp.PyArray_NDIM(w) == 1:
        return _of_one_output(rule, x, weight, bias)
    return apply(rule, partial(_map_again, None), (x, weight) if bias is None else (x, weight, bias))


def _map_again(str activation, cnp.ndarray a, cnp.ndarray w, b=None):
    """Compute the affine map again with the same kernel, so that the result has the same bits."""
    if activation is None or activation == "relu":
        return affine(a, w, b, False)
    return affine_then(a, w, b, _KERNELS[activation], True)[0]


def _rectified_again(cnp.ndarray a, cnp.ndarray w, b=None):
    return affine(a, w, b, True)


cdef TensorCore _of_one_output(Rule rule, object x, object weight, object bias):
    if bias is not None and bias.ndim != 0:
        raise InvalidArgumentError(
            f"linear: beside a weight of one dimension the bias has none, shape (), not {bias.shape}"
        )
    row = None if bias is None else bias.reshape(1)
    return _run(rule, x, weight.unsqueeze(0), row, None).squeeze(-1)


cdef bint _is_recorded(object x, object weight, object bias) except -1:
    return (
        (<TensorCore>x)._node is not None
        or (<TensorCore>weight)._node is not None
        or (bias is not None and (<TensorCore>bias)._node is not None)
    ) and bool(recorder())


cdef cnp.ndarray _array_of(str what, object x):
    if not is_tensor(x):
        raise TypeError(
            f"linear: {what} must be a tensor, not {type(x).__name__}: write tensor.tensor({what})"
        )
    cdef cnp.ndarray array = array_of(<TensorCore>x)
    if array is None:
        (<TensorCore>x)._raise_disposed()
    return array
