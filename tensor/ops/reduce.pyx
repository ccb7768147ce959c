"""Run reductions and functions along a dimension on tensors, and explain their errors."""

cimport numpy as cnp

from tensor.core.storage cimport array_of
from tensor.core.tensor cimport TensorCore, is_tensor, wrap
from tensor.core.bfloat16 cimport is_bfloat16, is_inexact, wide_for
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

# Fast kernels by op, which need no kernel context. They return None for cases that only NumPy supports.
cdef dict _fast_kernels = {"sum": sum_over, "mean": mean_over, "max": max_over, "min": min_over}


def axis_of(name, axis, ndim):
    """Return `axis` as non-negative numbers, or None for all. A 0-d tensor accepts 0 and -1."""
    if axis is None or (ndim == 0 and axis in (0, -1)):
        return None
    if isinstance(axis, (tuple, list)):
        return dims_of(name, axis, ndim or 1)[:ndim]
    return dim_of(name, axis, ndim)


def reduce(str name, kernel, x, axis, bint keepdims=False, **more):
    """Return ``kernel(array, axis, keepdims, **more)`` for the array of `x`, as a differentiable tensor."""
    cdef cnp.ndarray array, out = None
    cdef Py_ssize_t dim, ndim
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
            dim = axis
            axis = dim if dim >= 0 else dim + ndim
        else:
            axis = axis_of(name, axis, ndim)
    if more.get("dtype") is not None and (is_bfloat16(array) or more["dtype"].kind == "V"):
        # Compute in the given dtype, or in float32 for bfloat16.
        given = x = x.to(more["dtype"])
        array = array_of(given)
        if is_inexact(array):
            more["dtype"] = None
    kernel = wide_for(kernel, (array,))
    failure = None
    try:
        fast_kernel = _fast_kernels.get(name)
        if fast_kernel is not None and more.get("dtype") is None:
            out = fast_kernel(array, axis, keepdims)
        if out is None:
            out = as_array(run_kernel(kernel, array, axis, keepdims, **more))
    except OutOfMemoryError:
        raise
    except MemoryError:
        failure = out_of_memory()
    except (TypeError, ValueError) as error:
        failure = failed(name, error, array)
    if failure is not None:
        raise failure  # outside the except block, because the traceback of the first error holds arrays
    if given._node is None:
        return wrap(out)
    more["shape"], more["axis"], more["keepdims"] = (<object>array).shape, axis, keepdims
    cdef Node node = record(_RULES[name], (given,), out, more)
    if node is not None and node.recipe is not None:
        for name in ("shape", "axis", "keepdims"):
            del more[name]
        fast_kernel = fast_kernel if more.get("dtype") is None else None
        remember(node, _Recomputation(kernel, fast_kernel, axis, keepdims, more), (given,))
    return wrap_recorded(out, node)


cdef class _Recomputation:
    """Computes a reduction again, with the same kernel and options."""

    cdef object kernel, fast_kernel, axis, keepdims
    cdef dict options

    def __init__(self, kernel, fast_kernel, axis, keepdims, dict options):
        self.kernel, self.fast_kernel, self.options = kernel, fast_kernel, options
        self.axis, self.keepdims = axis, keepdims

    def __call__(self, array):
        out = None if self.fast_kernel is None else self.fast_kernel(array, self.axis, self.keepdims)
        return self.kernel(array, self.axis, self.keepdims, **self.options) if out is None else out


def along(str name, kernel, x, axis):
    """Return ``kernel(array, axis)`` for the array of `x`, in the shape of `x`. A 0-d `x` counts as a vector.

    The third argument of `kernel` is `out`, for donated memory of the result's dtype, as in ``apply_into``.
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
        dim = axis
    else:
        dim = axis_of(name, axis, ndim)
    kernel = wide_for(kernel, (array,))
    if given.is_donated and dim is not None:
        return _along_over(name, kernel, given, dim)
    failure = None
    try:
        if dim is not None:
            result = run_kernel(kernel, array, dim)
        else:
            result = run_kernel(kernel, array.reshape(1), 0).reshape(())
    except (TypeError, ValueError) as error:
        failure = explain(name, error, (array,))
    if failure is not None:
        raise failure  # outside the except block, because the traceback of the first error holds arrays
    if given._node is None:
        return wrap(result)
    return wrap_recorded(result, record(_RULES[name], (given,), result, {"axis": dim}))


# A separate function, because a closure inside `along` would make each call allocate an object.
def _along_over(name, kernel, x, dim):
    return apply_into(_RULES[name], lambda a, out: kernel(a, dim, out), (x,), axis=dim)


def failed(name, error, array):
    """Return the exception to raise for `error` of a reduction of `array`."""
    if array.size == 0 and isinstance(error, ValueError):
        return ValueError(
            f"{name} of {array.dtype}{list(array.shape)}: there are no elements to choose from. Reduce "
            "another dimension, or check x.numel() first"
        )
    return explain(name, error, (array,))
