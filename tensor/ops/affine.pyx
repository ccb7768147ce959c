"""Affine maps as recorded ops: what ``nn.functional.linear`` computes."""

cimport numpy as cnp

from tensor.core.storage cimport array_of
from tensor.core.tensor cimport TensorCore, is_tensor
from tensor.kernels.affine cimport affine
from tensor.kernels.context cimport enter, leave
from tensor.tape.nodes cimport Rule
from tensor.tape.recording cimport record, record_after, wrap_recorded

from tensor.memory.limits import OutOfMemoryError, out_of_memory
from tensor.ops.messages import explain
from tensor.tape.rules import RULES

cnp.import_array()

cdef Rule _RELU = RULES["relu"]


def apply_affine(Rule rule not None, x, weight, bias) -> TensorCore:
    """Return ``x @ weight.T + bias`` of tensors, `bias` perhaps None; `rule` derives it by all of them."""
    return _run(rule, x, weight, bias, False)


def apply_affine_then_relu(Rule rule not None, x, weight, bias) -> TensorCore:
    """Return what ReLU makes of ``apply_affine``, in one block of memory, with the nodes of both."""
    return _run(rule, x, weight, bias, True)


cdef TensorCore _run(Rule rule, object x, object weight, object bias, bint is_rectified):
    cdef cnp.ndarray a = _array_of("input", x), w = _array_of("weight", weight), out = None
    cdef object b = None if bias is None else _array_of("bias", bias)
    context = enter(True)
    failure = None
    try:
        out = affine(a, w, b, is_rectified)
    except OutOfMemoryError:
        raise
    except MemoryError:
        failure = out_of_memory()  # raised below: its context would hold arrays
    except (TypeError, ValueError) as error:
        failure = explain("linear", error, [a, w] if b is None else [a, w, b])
    finally:
        leave(context, True)
    if failure is not None:
        raise failure
    node = record(rule, (x, weight) if bias is None else (x, weight, bias), out, {})
    if is_rectified:
        node = record_after(_RELU, node, out)
    return wrap_recorded(out, node)


cdef cnp.ndarray _array_of(str what, object x):
    if not is_tensor(x):
        raise TypeError(
            f"linear: {what} must be a tensor, not {type(x).__name__}: write tensor.tensor({what})"
        )
    cdef cnp.ndarray array = array_of(<TensorCore>x)
    if array is None:
        (<TensorCore>x)._raise_disposed()
    return array
