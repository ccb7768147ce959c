"""``torch.masked``: reductions and normalizations with a mask.

`mask` is True for elements to include. It is broadcast to the input. For a slice without included elements,
sums are 0, products 1, and means nan. Maxima and minima are infinite, or a limit of an integer dtype.
"""

from __future__ import annotations

import math
from typing import Any

import tensor as tn
from tensor import Tensor
from tensor._dtypes import DtypeLike, is_floating, is_inexact
from tensor.core.tensor import widening

Dims = int | tuple[int, ...] | None

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def _kept(input: Tensor, mask: Tensor | None, fill: complex) -> Tensor:
    """Return the input with masked elements replaced by `fill`."""
    return input if mask is None else tn.where(mask.bool(), input, fill)


def _least(x: Tensor) -> Any:
    return -math.inf if is_floating(x.dtype) else int(tn.iinfo(x.dtype).min)


def _most(x: Tensor) -> Any:
    return math.inf if is_floating(x.dtype) else int(tn.iinfo(x.dtype).max)


def _numbers(input: Tensor, dtype: DtypeLike | None) -> Tensor:
    """Return the input in `dtype`; bools count as integers."""
    wanted = dtype if dtype is not None else tn.int64 if input.dtype.kind == "b" else input.dtype
    return input.to(wanted)


def _dims(input: Tensor, dim: Dims) -> Any:
    return tuple(range(input.ndim)) if dim is None or dim == () else dim


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the sum of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.sum(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False])).item()
    1.0
    """
    x = _kept(input, mask, 0)
    return x.sum(_dims(x, dim), keepdim, dtype=dtype)


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the product of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.prod(torch.tensor([3.0, 2.0]), mask=torch.tensor([True, False])).item()
    3.0
    """
    x = _kept(input, mask, 1)
    if dtype is None and x.dtype.kind == "u":
        dtype = "int64"  # as for x.prod()
    return tn.prod(x, axis=_dims(x, dim), keepdims=keepdim, dtype=dtype)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the mean of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.mean(torch.tensor([3.0, 2.0]), mask=torch.tensor([True, False])).item()
    3.0
    """
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    ones = tn.ones(input.shape, dtype="int64")
    return sum(ones, dim, keepdim=keepdim, mask=mask)


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the largest of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.amax(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False])).item()
    1.0
    """
    x = _numbers(input, dtype)
    return _kept(x, mask, _least(x)).amax(_dims(x, dim), keepdim)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the smallest of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.amin(torch.tensor([3.0, 2.0]), mask=torch.tensor([True, False])).item()
    3.0
    """
    x = _numbers(input, dtype)
    return _kept(x, mask, _most(x)).amin(_dims(x, dim), keepdim)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the largest unmasked element, with `dtype` or the input's dtype.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.argmax(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False])).item()
    0.0
    """
    x = _numbers(input, dtype)
    return _kept(x, mask, _least(x)).argmax(dim, keepdim).to(x.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the smallest unmasked element, with `dtype` or the input's dtype.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.argmin(torch.tensor([3.0, 2.0]), mask=torch.tensor([True, False])).item()
    0.0
    """
    x = _numbers(input, dtype)
    return _kept(x, mask, _most(x)).argmin(dim, keepdim).to(x.dtype)


def cumsum(input: Tensor, dim: int, *, dtype: DtypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the running sums of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.cumsum(torch.tensor([1.0, 2.0]), 0, mask=torch.tensor([True, False])).tolist()
    [1.0, 1.0]
    """
    return _kept(input, mask, 0).cumsum(dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DtypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the running products of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.cumprod(torch.tensor([3.0, 2.0]), 0, mask=torch.tensor([True, False])).tolist()
    [3.0, 3.0]
    """
    return _kept(input, mask, 1).cumprod(dim, dtype=dtype)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the logarithm of the sum of the exponentials of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.logsumexp(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False])).item()
    1.0
    """
    x = _numbers(input, dtype)
    return _kept(x, mask, _least(x)).logsumexp(_dims(x, dim), keepdim).to(x.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DtypeLike | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return log(exp(input) + exp(other)) of the unmasked elements of both.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.logaddexp(torch.ones(1), torch.ones(1), other_mask=torch.tensor([False])).item()
    1.0
    """
    x, y = _numbers(input, dtype), _numbers(other, dtype)
    return _kept(x, input_mask, -math.inf).logaddexp(_kept(y, other_mask, -math.inf))


def softmax(input: Tensor, dim: int, *, dtype: DtypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the unmasked elements; 0 for masked ones.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.softmax(torch.tensor([1.0, 2.0]), 0, mask=torch.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    return _kept(_numbers(input, dtype), mask, -math.inf).softmax(dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: DtypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return the logarithm of ``softmax`` of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.log_softmax(torch.tensor([1.0, 2.0]), 0, mask=torch.tensor([True, False])).tolist()
    [0.0, -inf]
    """
    return _kept(_numbers(input, dtype), mask, -math.inf).log_softmax(dim)


def softmin(input: Tensor, dim: int, *, dtype: DtypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the negatives of the unmasked elements; 0 for masked ones.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.softmin(torch.tensor([1.0, 2.0]), 0, mask=torch.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    return (-_kept(_numbers(input, dtype), mask, math.inf)).softmax(dim)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the norm of the vector of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.norm(torch.tensor([3.0, 4.0]), 2.0, mask=torch.tensor([True, False])).item()
    3.0
    """
    power = 2.0 if ord is None else ord
    x = _kept(_numbers(input, dtype), mask, math.inf if power == -math.inf else 0)
    return tn.linalg.vector_norm(x, axis=_dims(x, dim), keepdims=keepdim, ord=power)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the unmasked elements, divided by their norm, which is at least `eps`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.masked.normalize(torch.tensor([3.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    x = _numbers(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return _kept(x, mask, 0) / size.clamp(min=eps)


@widening
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> keep = torch.tensor([True, True, False])
    >>> torch.masked.var(torch.tensor([1.0, 3.0, 9.0]), mask=keep).item()
    2.0
    """
    if correction is None:
        correction = 0 if unbiased is False else 1
    x = input if is_inexact(input.dtype) else input.float()
    centre = mean(x, dim, keepdim=True, mask=mask)
    squares = sum((_kept(x, mask, 0) - centre).abs().square(), dim, keepdim=keepdim, dtype=dtype, mask=mask)
    count = _count(x, dim, keepdim, mask)
    return squares / (count - correction).clamp(min=0)


@widening
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation of the unmasked elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> keep = torch.tensor([True, True, False])
    >>> torch.masked.std(torch.tensor([1.0, 5.0, 9.0]), unbiased=False, mask=keep).item()
    2.0
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the median of the unmasked elements: the lower of the two middle ones if their number is even.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> keep = torch.tensor([True, True, False])
    >>> torch.masked.median(torch.tensor([1.0, 3.0, 9.0]), mask=keep).item()
    1.0
    """
    x = _kept(_numbers(input, dtype), mask, math.nan)
    return x.nanquantile(0.5, dim, keepdim, interpolation="lower")
