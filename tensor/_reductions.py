"""Reductions and cumulations, as the array API standard names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._derivatives import RULES
from tensor._dispatch import apply, foreign
from tensor._dtypes import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._dtypes import DtypeLike
    from tensor._storage import Array
    from tensor._tensor import Tensor

Axis = int | tuple[int, ...] | None


def _shape(name: str, x: Tensor) -> tuple[int, ...]:
    try:
        x._raise_if_disposed()
        return x.shape
    except AttributeError:
        raise foreign(name, x) from None


def checked_axis(name: str, shape: tuple[int, ...], axis: Any) -> Any:
    """Return `axis` as NumPy takes it, or raise what names the dimension that is not there."""
    if axis is None:
        return None
    if isinstance(axis, (list, tuple)):
        axes = tuple(checked_axis(name, shape, a) for a in axis)
        if len({a % len(shape) for a in axes}) != len(axes):
            raise ValueError(f"{name}: a dimension stands twice in {axes}")
        return axes
    try:
        place = int(axis.__index__())
    except AttributeError:
        raise TypeError(f"{name}: a dimension is an integer, not {type(axis).__name__}") from None
    if not shape and place in (0, -1):
        return None
    if not -len(shape) <= place < len(shape):
        raise IndexError(
            f"{name}: dimension {place} is out of range for shape {shape}: it has dimensions "
            + (f"{-len(shape)} to {len(shape) - 1}" if shape else "no dimensions")
        )
    return place


def _reduce(
    name: str, kernel: Callable[..., Any], x: Tensor, axis: Any, keepdims: bool, **more: Any
) -> Tensor:
    shape = _shape(name, x)
    axis = checked_axis(name, shape, axis)
    return apply(
        RULES[name],
        lambda array: kernel(array, axis=axis, keepdims=keepdims, **more),
        (x,),
        shape=shape,
        axis=axis,
        keepdims=keepdims,
        **more,
    )


def sum(x: Tensor, /, *, axis: Axis = None, dtype: DtypeLike | None = None, keepdims: bool = False) -> Tensor:
    """Return the sum over `axis` (an int, several, or None for all), in `dtype`.

    Bools and small integers are summed as int64. The result has the dimensions that are left, or size 1 in
    place of each summed one with `keepdims`.

    Examples
    --------
    >>> import tensor
    >>> tensor.sum(tensor.ones((2, 3)), axis=0).tolist()
    [2.0, 2.0, 2.0]
    """
    return _reduce("sum", np.sum, x, axis, keepdims, dtype=None if dtype is None else as_dtype(dtype))


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over `axis`; integers give float64.

    Examples
    --------
    >>> import tensor
    >>> tensor.mean(tensor.tensor([1.0, 3.0])).item()
    2.0
    """
    return _reduce("mean", np.mean, x, axis, keepdims)


def prod(
    x: Tensor, /, *, axis: Axis = None, dtype: DtypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """Return the product over `axis`, in `dtype`.

    Examples
    --------
    >>> import tensor
    >>> tensor.prod(tensor.tensor([2.0, 3.0])).item()
    6.0
    """
    return _reduce("prod", np.prod, x, axis, keepdims, dtype=None if dtype is None else as_dtype(dtype))


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the variance over `axis`: squared deviations, over the count less `correction`.

    Examples
    --------
    >>> import tensor
    >>> tensor.var(tensor.tensor([1.0, 3.0])).item()
    1.0
    """
    return _reduce("var", np.var, x, axis, keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over `axis`: the root of ``var``.

    Examples
    --------
    >>> import tensor
    >>> tensor.std(tensor.tensor([1.0, 3.0])).item()
    1.0
    """
    return _reduce("std", np.std, x, axis, keepdims, correction=correction)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over `axis`. Equal ones share the gradient.

    Examples
    --------
    >>> import tensor
    >>> tensor.max(tensor.tensor([1.0, 3.0])).item()
    3.0
    """
    return _reduce("max", np.max, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over `axis`. Equal ones share the gradient.

    Examples
    --------
    >>> import tensor
    >>> tensor.min(tensor.tensor([1.0, 3.0])).item()
    1.0
    """
    return _reduce("min", np.min, x, axis, keepdims)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over `axis` are true.

    Examples
    --------
    >>> import tensor
    >>> tensor.all(tensor.tensor([True, False])).item()
    False
    """
    return _reduce("all", np.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether some element over `axis` is true.

    Examples
    --------
    >>> import tensor
    >>> tensor.any(tensor.tensor([True, False])).item()
    True
    """
    return _reduce("any", np.any, x, axis, keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the place of the first largest element, of the flat tensor or along `axis`.

    Examples
    --------
    >>> import tensor
    >>> tensor.argmax(tensor.tensor([1.0, 3.0])).item()
    1
    """
    return _reduce("argmax", np.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the place of the first smallest element, of the flat tensor or along `axis`.

    Examples
    --------
    >>> import tensor
    >>> tensor.argmin(tensor.tensor([1.0, 3.0])).item()
    0
    """
    return _reduce("argmin", np.argmin, x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return how many elements over `axis` are not 0.

    Examples
    --------
    >>> import tensor
    >>> tensor.count_nonzero(tensor.tensor([1.0, 0.0])).item()
    1
    """
    return _reduce("count_nonzero", np.count_nonzero, x, axis, keepdims)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: DtypeLike | None = None) -> Tensor:
    """Return the running sums along `axis`, which a tensor of one dimension may leave out.

    Examples
    --------
    >>> import tensor
    >>> tensor.cumulative_sum(tensor.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 3.0, 6.0]
    """
    return _cumulate("cumulative_sum", np.cumsum, x, axis, dtype)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: DtypeLike | None = None) -> Tensor:
    """Return the running products along `axis`, which a tensor of one dimension may leave out.

    Examples
    --------
    >>> import tensor
    >>> tensor.cumulative_prod(tensor.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 6.0]
    """
    return _cumulate("cumulative_prod", np.cumprod, x, axis, dtype)


def _cumulate(name: str, kernel: Any, x: Tensor, axis: int | None, dtype: DtypeLike | None) -> Tensor:
    shape = _shape(name, x)
    if axis is None:
        if len(shape) != 1:
            raise ValueError(f"{name}: shape {shape} needs axis=, the dimension to run along")
        axis = 0
    axis = checked_axis(name, shape, axis)
    wanted = None if dtype is None else as_dtype(dtype)
    return apply(RULES[name], lambda array: kernel(array, axis=axis, dtype=wanted), (x,), axis=axis)


def logsumexp(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over `axis`, without overflow.

    Examples
    --------
    >>> import tensor
    >>> tensor.logsumexp(tensor.tensor([1000.0])).item()
    1000.0
    """
    return _reduce("logsumexp", _logsumexp, x, axis, keepdims)


def _logsumexp(x: Array, *, axis: Any, keepdims: bool) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)  # -inf less -inf would be nan
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.reshape(total, np.sum(x, axis=axis).shape)


def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return exp(x) over its sum along `axis`: positive elements whose sum is 1.

    Examples
    --------
    >>> import tensor
    >>> tensor.softmax(tensor.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    axis = checked_axis("softmax", _shape("softmax", x), axis)
    return apply(RULES["softmax"], lambda array: _softmax(_floating(array), axis), (x,), axis=axis)


def _softmax(x: Array, axis: Any) -> Array:
    out: Array = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(out / np.sum(out, axis=axis, keepdims=True))


def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the logarithm of ``softmax`` along `axis`, without the loss of small probabilities.

    Examples
    --------
    >>> import tensor
    >>> tensor.log_softmax(tensor.tensor([1000.0])).tolist()
    [0.0]
    """
    axis = checked_axis("log_softmax", _shape("log_softmax", x), axis)
    return apply(RULES["log_softmax"], lambda array: _log_softmax(_floating(array), axis), (x,), axis=axis)


def _log_softmax(x: Array, axis: Any) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)))


def _floating(array: Array) -> Array:
    return array if array.dtype.kind in "fc" else array.astype(np.float32)
