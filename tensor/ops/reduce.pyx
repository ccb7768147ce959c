"""The road from a call of a reduction to a new tensor; its errors."""

cimport numpy as cnp

from tensor.core.storage cimport array_of
from tensor.core.tensor cimport TensorCore, is_tensor, wrap
from tensor.core.bfloat16 cimport is_bfloat16, wide_for
from tensor.tape.nodes cimport Node
from tensor.tape.recording cimport record, remember, wrap_recorded

from tensor.core.dims import dim_of, dims_of
from tensor.kernels.context import run_kernel
from tensor.kernels.reductions import max_over, mean_over, min_over, sum_over
from tensor.memory.limits import OutOfMemoryError, out_of_memory
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply_into, as_array
from tensor.ops.messages import explain
from tensor.tape.rules import RULES as _RULES

cnp.import_array()

# Kernels that need no context to run in, by the op: asked first, and None is their answer to what is NumPy's.
cdef dict _kernels = {"sum": sum_over, "mean": mean_over, "max": max_over, "min": min_over}


def axis_of(name, axis, ndim):
    """Return `axis` counted from the front; the one element of a 0-d tensor lies along 0 and -1."""
    if axis is None or (ndim == 0 and axis in (0, -1)):
        return None
    if isinstance(axis, (tuple, list)):
        return dims_of(name, axis, ndim or 1)[:ndim]
    return dim_of(name, axis, ndim)


def reduce(str name, kernel, x, axis, bint keepdims=False, **more):
    """Return what ``kernel(array, axis, keepdims, **more)`` makes of `x`; derivatives may ask for these."""
    cdef cnp.ndarray array, out = None
    cdef Py_ssize_t place, ndim
    cdef TensorCore given
    if not is_tensor(x):
        x = as_tensor(x)
    given = <TensorCore>x
    array = array_of(given)
    if array is None:
        given._raise_disposed()
    if axis is not None:
        ndim = cnp.PyArray_NDIM(array)
        if type(axis) is int and -ndim <= axis < ndim:
            place = axis
            axis = place if place >= 0 else place + ndim
        else:
            axis = axis_of(name, axis, ndim)
    if more.get("dtype") is not None and (is_bfloat16(array) or more["dtype"].kind == "V"):
        # Computed in the dtype asked for, or in float32 for bfloat16.
        given = x = x.to(more["dtype"])
        array = array_of(given)
        more["dtype"] = None
    kernel = wide_for(kernel, (array,))
    failure = None
    try:
        own = _kernels.get(name)
        if own is not None and more.get("dtype") is None:
            out = own(array, axis, keepdims)
        if out is None:
            out = as_array(run_kernel(kernel, array, axis, keepdims, **more))
    except OutOfMemoryError:
        raise
    except MemoryError:
        failure = out_of_memory()
    except (TypeError, ValueError) as error:
        failure = failed(name, error, array)
    if failure is not None:
        raise failure  # not as the context of the other: its traceback holds arrays
    if given._node is None:
        return wrap(out)
    more["shape"], more["axis"], more["keepdims"] = (<object>array).shape, axis, keepdims
    cdef Node node = record(_RULES[name], (given,), out, more)
    if node is not None and node.recipe is not None:
        for name in ("shape", "axis", "keepdims"):
            del more[name]
        own = own if more.get("dtype") is None else None
        remember(node, _Again(kernel, own, axis, keepdims, more), (given,))
    return wrap_recorded(out, node)


cdef class _Again:
    """A reduction of an array, computed again as it was."""

    cdef object kernel, own, axis, keepdims
    cdef dict options

    def __init__(self, kernel, own, axis, keepdims, dict options):
        self.kernel, self.own, self.axis, self.keepdims, self.options = kernel, own, axis, keepdims, options

    def __call__(self, array):
        out = None if self.own is None else self.own(array, self.axis, self.keepdims)
        return self.kernel(array, self.axis, self.keepdims, **self.options) if out is None else out


def along(str name, kernel, x, axis):
    """Return what `kernel` makes of `x` along `axis`, in its shape; a 0-d tensor counts as one element.

    Its third argument is `out`, where it may write if that has the dtype of the result: as in ``apply_into``.
    """
    cdef TensorCore given
    cdef cnp.ndarray array
    cdef Py_ssize_t ndim
    if not is_tensor(x):
        x = as_tensor(x)
    given = <TensorCore>x
    array = array_of(given)
    if array is None:
        given._raise_disposed()
    ndim = cnp.PyArray_NDIM(array)
    if type(axis) is int and 0 <= axis < ndim:
        place = axis
    else:
        place = axis_of(name, axis, ndim)
    kernel = wide_for(kernel, (array,))
    if given.is_donated and place is not None:
        return _along_over(name, kernel, given, place)
    failure = None
    try:
        if place is not None:
            result = run_kernel(kernel, array, place)
        else:
            result = run_kernel(kernel, array.reshape(1), 0).reshape(())
    except (TypeError, ValueError) as error:
        failure = explain(name, error, (array,))
    if failure is not None:
        raise failure  # not as the context of the other: its traceback holds arrays
    if given._node is None:
        return wrap(result)
    return wrap_recorded(result, record(_RULES[name], (given,), result, {"axis": place}))


# Apart from `along`: a function with another one inside makes an object for what they share.
def _along_over(name, kernel, x, place):
    return apply_into(_RULES[name], lambda a, out: kernel(a, place, out), (x,), axis=place)


def failed(name, error, array):
    """Return what to raise for `error` of a reduction of `array`."""
    if array.size == 0 and isinstance(error, ValueError):
        return ValueError(
            f"{name} of {array.dtype}{list(array.shape)}: there is no element to choose from. Reduce a "
            "dimension that has some, or check x.numel() first"
        )
    return explain(name, error, (array,))
