"""Reductions, with the names of the array API standard."""

from __future__ import annotations

from collections.abc import Callable
from math import prod as product
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array, Dtype, DtypeLike, as_dtype, float16, float32, float64
from tensor.core.dims import Axis
from tensor.core.tensor import snapshot, wrap
from tensor.kernels import reductions as kernels
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import as_array, axis_of, failed, reduce
from tensor.ops.messages import Operand
from tensor.ops.outputs import copy_out
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# Call these with the positional arguments (array, axis, dtype, out, keepdims, initial). A call takes 200 ns
# less than np.sum and similar functions.
add_reduce: Callable[..., Any] = np.add.reduce
maximum_reduce: Callable[..., Any] = np.maximum.reduce
minimum_reduce: Callable[..., Any] = np.minimum.reduce
and_reduce: Callable[..., Any] = np.logical_and.reduce
or_reduce: Callable[..., Any] = np.logical_or.reduce
multiply_reduce: Callable[..., Any] = np.multiply.reduce


def count_along(shape: tuple[int, ...], axis: Axis) -> int:
    """Return the number of elements that a reduction over `axis` combines into one."""
    if axis is None:
        return product(shape)
    return shape[axis] if isinstance(axis, int) else product([shape[i] for i in axis])


def _accumulator(dtype: Dtype) -> Dtype | None:
    """Return the dtype in which means and variances are summed, or None for the dtype of the elements."""
    return float64 if dtype.kind in "biu" else float32 if dtype == float16 else None


def _mean_dtype(dtype: Dtype) -> Dtype | None:
    """Return the dtype to which to cast a mean of elements of `dtype`, or None if no cast is needed."""
    return float32 if dtype.kind in "biu" else float16 if dtype == float16 else None


# These functions first try the compiled kernel, if there is one. It returns None for arrays that only NumPy
# supports. For sums, ``reduce`` itself tries it.


def _sum(a: Array, axis: Any, keepdims: bool, dtype: Dtype | None) -> Any:
    return add_reduce(a, axis, dtype, None, keepdims)


def _prod(a: Array, axis: Any, keepdims: bool, dtype: Dtype | None) -> Any:
    return multiply_reduce(a, axis, dtype, None, keepdims)


def _mean(a: Array, axis: Any, keepdims: bool) -> Any:
    found = kernels.mean_over(a, axis, keepdims)
    if found is not None:
        return found
    total = add_reduce(a, axis, _accumulator(a.dtype), None, keepdims)
    count = count_along(a.shape, axis)
    if count == 0:
        return np.full_like(total, np.nan, dtype=_mean_dtype(a.dtype))
    wanted = _mean_dtype(a.dtype)
    return total / count if wanted is None else (total / count).astype(wanted)


def _var(a: Array, axis: Any, keepdims: bool, correction: float) -> Any:
    a = a.astype(_accumulator(a.dtype) or a.dtype, copy=False)
    freedom = count_along(a.shape, axis) - correction
    if freedom > 0:
        found = kernels.var_over(a, axis, keepdims, correction)
        if found is not None:
            return found
    squares = a - _mean(a, axis, True)
    if a.dtype.kind == "c":
        squares = squares.real**2 + squares.imag**2
    else:
        squares *= squares
    total = add_reduce(squares, axis, None, None, keepdims)
    if freedom <= 0:
        # The result of a division by 0, without the warning: nan for the variance of one element.
        return np.where(total == 0, total.dtype.type(np.nan), total.dtype.type(np.inf))
    return total / freedom


def _in_dtype_of_means(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def in_own_dtype(a: Array, axis: Any, keepdims: bool, **more: Any) -> Any:
        wanted = _mean_dtype(a.dtype)
        out = kernel(a, axis, keepdims, **more)
        return out if wanted is None else out.astype(wanted)

    return in_own_dtype


_var_of = _in_dtype_of_means(_var)
_std_of = _in_dtype_of_means(lambda *given, **more: np.sqrt(_var(*given, **more)))


def _max(a: Array, axis: Any, keepdims: bool) -> Any:
    found = kernels.max_over(a, axis, keepdims)
    return maximum_reduce(a, axis, None, None, keepdims) if found is None else found


def _min(a: Array, axis: Any, keepdims: bool) -> Any:
    found = kernels.min_over(a, axis, keepdims)
    return minimum_reduce(a, axis, None, None, keepdims) if found is None else found


def _all(a: Array, axis: Any, keepdims: bool) -> Any:
    return and_reduce(a, axis, None, None, keepdims)


def _any(a: Array, axis: Any, keepdims: bool) -> Any:
    return or_reduce(a, axis, None, None, keepdims)


def _argmax(a: Array, axis: Any, keepdims: bool) -> Any:
    found = kernels.argmax_over(a, axis, keepdims)
    return a.argmax(axis, keepdims=keepdims) if found is None else found


def _argmin(a: Array, axis: Any, keepdims: bool) -> Any:
    found = kernels.argmin_over(a, axis, keepdims)
    return a.argmin(axis, keepdims=keepdims) if found is None else found


def _count_nonzero(a: Array, axis: Any, keepdims: bool) -> Any:
    return np.count_nonzero(a, axis, keepdims=keepdims)


def sum(
    x: Operand,
    /,
    *,
    axis: Axis = None,
    dtype: DtypeLike | None = None,
    keepdims: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the sum over `axis` (an int, several, or None for all), in `dtype`.

    Bools and small integers are summed as int64, unsigned ones as uint64. The result has the other
    dimensions, and with `keepdims` also the summed ones, of size 1.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Raises
    ------
    IndexError
        If there is no such axis.

    Examples
    --------
    >>> import tensor
    >>> tensor.sum(tensor.ones((2, 3)), axis=0).tolist()
    [2.0, 2.0, 2.0]
    """
    result = reduce("sum", _sum, x, axis, keepdims, dtype=None if dtype is None else as_dtype(dtype))
    return result if out is None else copy_out("sum", (x,), result, out)


def mean(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, out: Tensor | None = None) -> Tensor:
    """Return the mean over `axis`, nan where there is no element; integers give float32.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.mean(tensor.tensor([1.0, 3.0])).item()
    2.0
    """
    result = reduce("mean", _mean, x, axis, keepdims)
    return result if out is None else copy_out("mean", (x,), result, out)


def prod(
    x: Operand,
    /,
    *,
    axis: Axis = None,
    dtype: DtypeLike | None = None,
    keepdims: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the product over `axis`, in `dtype`, by default in that of ``sum``.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.prod(tensor.tensor([2.0, 3.0])).item()
    6.0
    """
    result = reduce("prod", _prod, x, axis, keepdims, dtype=None if dtype is None else as_dtype(dtype))
    return result if out is None else copy_out("prod", (x,), result, out)


def var(x: Operand, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the variance over `axis`: the sum of squared deviations / (count - `correction`).

    Examples
    --------
    >>> import tensor
    >>> tensor.var(tensor.tensor([1.0, 3.0])).item()
    1.0
    """
    return reduce("var", _var_of, x, axis, keepdims, correction=correction)


def std(x: Operand, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over `axis`: the root of ``var``. The gradient at 0 is 0.

    Examples
    --------
    >>> import tensor
    >>> tensor.std(tensor.tensor([1.0, 3.0])).item()
    1.0
    """
    return reduce("std", _std_of, x, axis, keepdims, correction=correction)


def max(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, out: Tensor | None = None) -> Tensor:
    """Return the largest element over `axis`. Equal ones share the gradient.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Raises
    ------
    ValueError
        If there is no element.

    Examples
    --------
    >>> import tensor
    >>> tensor.max(tensor.tensor([1.0, 3.0])).item()
    3.0
    """
    result = reduce("max", _max, x, axis, keepdims)
    return result if out is None else copy_out("max", (x,), result, out)


def min(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, out: Tensor | None = None) -> Tensor:
    """Return the smallest element over `axis`. Equal ones share the gradient.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Raises
    ------
    ValueError
        If there is no element.

    Examples
    --------
    >>> import tensor
    >>> tensor.min(tensor.tensor([1.0, 3.0])).item()
    1.0
    """
    result = reduce("min", _min, x, axis, keepdims)
    return result if out is None else copy_out("min", (x,), result, out)


def max_along(x: Operand, axis: int, keepdims: bool) -> tuple[Tensor, Tensor]:
    """Return the largest elements along `axis` and their indices. Only these elements get gradients."""
    return _along("max", _max, _argmax, x, axis, keepdims)


def min_along(x: Operand, axis: int, keepdims: bool) -> tuple[Tensor, Tensor]:
    """Return the smallest elements along `axis` and their indices. Only these elements get gradients."""
    return _along("min", _min, _argmin, x, axis, keepdims)


def _along(
    name: str, extreme: Callable[..., Any], locate: Callable[..., Any], x: Operand, axis: int, keepdims: bool
) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    array = x._array
    if array is None:
        x._raise_disposed()
    place = axis_of(name, axis, array.ndim)
    if isinstance(place, tuple):
        raise TypeError(
            f"{name} with indices takes one dimension, not {axis}: write amax or amin for several"
        )
    try:
        kept = as_array(run_kernel(locate, array, place, True))
        out = as_array(run_kernel(extreme, array, place, keepdims))
    except (TypeError, ValueError) as error:
        raise failed(name, error, array) from None
    indices = wrap(kept.reshape(out.shape))
    # Save a snapshot, because the user may write to the indices.
    parameters = {"kept": snapshot(indices).reshape(kept.shape), "shape": array.shape, "axis": place}
    parameters["keepdims"] = keepdims
    values = wrap_recorded(out, record(RULES[f"{name}_along"], (x,), out, parameters))
    return values, indices


def all(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over `axis` are true, as bool.

    Examples
    --------
    >>> import tensor
    >>> tensor.all(tensor.tensor([True, False])).item()
    False
    """
    return reduce("all", _all, x, axis, keepdims)


def any(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether any element over `axis` is true, as bool.

    Examples
    --------
    >>> import tensor
    >>> tensor.any(tensor.tensor([True, False])).item()
    True
    """
    return reduce("any", _any, x, axis, keepdims)


def argmax(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest element, flattened or along `axis`, as int64.

    Examples
    --------
    >>> import tensor
    >>> tensor.argmax(tensor.tensor([1.0, 3.0])).item()
    1
    """
    return reduce("argmax", _argmax, x, axis, keepdims)


def argmin(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest element, flattened or along `axis`, as int64.

    Examples
    --------
    >>> import tensor
    >>> tensor.argmin(tensor.tensor([1.0, 3.0])).item()
    0
    """
    return reduce("argmin", _argmin, x, axis, keepdims)


def count_nonzero(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the number of nonzero elements over `axis`, as int64.

    Examples
    --------
    >>> import tensor
    >>> tensor.count_nonzero(tensor.tensor([1.0, 0.0])).item()
    1
    """
    return reduce("count_nonzero", _count_nonzero, x, axis, keepdims)
