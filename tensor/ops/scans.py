"""Cumulative sums and products, norms, and the softmax family."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Dtype, as_dtype, float16, float32, is_bfloat16, is_inexact
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of
from tensor.core.tensor import wrap
from tensor.kernels import reductions as kernels
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import along, reduce
from tensor.ops.elementwise import not_equal, subtract
from tensor.ops.joining import concat
from tensor.ops.outputs import copy_out
from tensor.ops.reductions import add_reduce, maximum_reduce, minimum_reduce

if TYPE_CHECKING:
    from tensor._dtypes import Array, DtypeLike
    from tensor._tensor import Tensor
    from tensor.core.dims import Axis
    from tensor.ops.messages import Operand


def _axis_to_run_along(name: str, x: Operand, axis: int | None) -> int:
    if axis is None:
        shape = as_tensor(x).shape
        if len(shape) != 1:
            raise InvalidArgumentError(
                f"{name}: a tensor of shape {shape} needs axis=, the dimension to run along"
            )
        return 0
    return axis


def cumulative_sum(
    x: Operand,
    /,
    *,
    axis: int | None = None,
    dtype: DtypeLike | None = None,
    include_initial: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the cumulative sum along `axis`, in `dtype`. `axis` is optional for one dimension.

    By default, bools and small integers are summed as int64, unsigned ones as uint64.
    With `include_initial`, the result has a 0 before the first element. With `out`, write the result to that
    tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.cumulative_sum(tensor.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 3.0, 6.0]
    >>> tensor.cumulative_sum(tensor.tensor([4.0, 2.0]), include_initial=True).tolist()
    [0.0, 4.0, 6.0]
    """
    result = _running("cumulative_sum", np.add, 0, x, axis, dtype, include_initial)
    return result if out is None else copy_out("cumulative_sum", (x,), result, out)


def cumulative_prod(
    x: Operand,
    /,
    *,
    axis: int | None = None,
    dtype: DtypeLike | None = None,
    include_initial: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the cumulative product along `axis`, in `dtype`. `axis` is optional for one dimension.

    By default, bools and small integers are multiplied as int64, unsigned ones as uint64.
    With `include_initial`, the result has a 1 before the first element. With `out`, write the result to that
    tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.cumulative_prod(tensor.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 6.0]
    >>> tensor.cumulative_prod(tensor.tensor([4.0, 2.0]), include_initial=True).tolist()
    [1.0, 4.0, 8.0]
    """
    result = _running("cumulative_prod", np.multiply, 1, x, axis, dtype, include_initial)
    return result if out is None else copy_out("cumulative_prod", (x,), result, out)


def _running(
    name: str,
    kernel: np.ufunc,
    initial: int,
    x: Operand,
    axis: int | None,
    dtype: DtypeLike | None,
    include_initial: bool,
) -> Tensor:
    place = _axis_to_run_along(name, x, axis)
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is not None and (is_bfloat16(wanted) or is_bfloat16(as_tensor(x).dtype)):
        x = as_tensor(x).to(wanted)
        if is_inexact(wanted):
            wanted = None  # bfloat16 is summed in float32, and rounded once
    result = along(name, partial(_accumulate, kernel, wanted), x, place)
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[dim_of(name, place, result.ndim)] = 1
    return concat([wrap(np.full(shape, initial, result.dtype)), result], axis=place)


def _accumulate(ufunc: np.ufunc, dtype: Dtype | None, a: Array, axis: int, out: Array | None = None) -> Array:
    if out is not None and (not is_inexact(out.dtype) or dtype not in (None, out.dtype)):
        out = None  # sums of small integers are wider
    # If `dtype` is None, NumPy computes in the dtype of `out`.
    found: Array = (np.cumsum if ufunc is np.add else np.cumprod)(a, axis, dtype, out)
    return found


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the `n`-th differences along `axis`.

    Parameters
    ----------
    n
        The order of differences; 0 returns the values, with `prepend` and `append`.
    prepend, append
        Values to concatenate before and after `x` along `axis`. The other sizes must be those of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.diff(tensor.tensor([1, 4, 9])).tolist()
    [3, 5]
    >>> tensor.diff(tensor.tensor([1, 4, 9]), n=2).tolist()
    [2]
    """
    y = as_tensor(x)
    place = dim_of("diff", axis, y.ndim)
    if n < 0:
        raise InvalidArgumentError(f"diff: n must be at least 0, not {n}")
    parts = [part for part in (prepend, y, append) if part is not None]
    y = concat(parts, axis=place) if len(parts) > 1 else y.clone()
    before = (slice(None),) * place
    for _ in range(n):
        later, earlier = y[(*before, slice(1, None))], y[(*before, slice(None, -1))]
        y = not_equal(later, earlier) if y.dtype.kind == "b" else subtract(later, earlier)
    return y


def _floating(a: Array) -> Any:
    """Return `a`, cast to float32 if it has integers, bools or float16."""
    return a.astype(float32) if a.dtype.kind in "biu" or a.dtype == float16 else a


def logsumexp(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over `axis`, without overflow; -inf if all elements are -inf.

    Examples
    --------
    >>> import tensor
    >>> tensor.logsumexp(tensor.tensor([1000.0])).item()
    1000.0
    """
    return reduce("logsumexp", kernels.logsumexp, x, axis, keepdims)


def softmax(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return ``exp(x) / exp(x).sum(axis)``: positive elements whose sum is 1.

    Integers give float32. If all elements are -inf, the result is nan, as in PyTorch.

    Examples
    --------
    >>> import tensor
    >>> tensor.softmax(tensor.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return along("softmax", kernels.softmax, x, _one_axis("softmax", axis))


def log_softmax(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the logarithm of ``softmax`` along `axis`, precise for small probabilities.

    Examples
    --------
    >>> import tensor
    >>> tensor.log_softmax(tensor.tensor([1000.0])).tolist()
    [0.0]
    """
    return along("log_softmax", kernels.log_softmax, x, _one_axis("log_softmax", axis))


def _one_axis(name: str, axis: Any) -> Any:
    if axis is None or isinstance(axis, (list, tuple)):
        raise TypeError(
            f"{name}: a dimension must be an integer, not {shown(axis)}: it normalizes along one dimension. "
            "Write for example -1 for the last one"
        )
    return axis


def vector_norm(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Return the `ord`-th root of the sum of abs(x)**ord over `axis`.

    An `ord` of inf gives the largest abs(x), -inf the smallest, 0 the number of nonzero elements. The
    gradient at a norm of 0 is 0.

    Examples
    --------
    >>> import tensor
    >>> tensor.vector_norm(tensor.tensor([3.0, 4.0])).item()
    5.0
    """
    return reduce("vector_norm", _vector_norm, x, axis, keepdims, ord=ord)


def _vector_norm(a: Array, axis: Any, keepdims: bool, ord: float) -> Any:
    size = np.abs(_floating(a))
    if ord == inf:
        out = maximum_reduce(size, axis, None, None, keepdims, 0)
    elif ord == -inf:
        out = minimum_reduce(size, axis, None, None, keepdims)
    elif ord == 0:
        out = add_reduce(size != 0, axis, size.dtype, None, keepdims)
    elif ord == 1:
        out = add_reduce(size, axis, None, None, keepdims)
    elif ord == 2:
        out = np.sqrt(add_reduce(size * size, axis, None, None, keepdims))
    else:
        out = add_reduce(size**ord, axis, None, None, keepdims) ** (1 / ord)
    return out.astype(float16) if a.dtype == float16 else out
