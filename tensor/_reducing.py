"""Reductions as methods, with PyTorch's names and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tensor import _reductions as f
from tensor._core import TensorCore

if TYPE_CHECKING:
    from tensor._dtypes import DtypeLike
    from tensor._reductions import Axis
    from tensor._tensor import Tensor


class ValuesAndIndices(NamedTuple):
    """What ``max``, ``min`` and ``sort`` along a dimension give: elements, and where they were."""

    values: Tensor
    indices: Tensor


class Reductions(TensorCore):
    """Reductions; `dim` is an int, several, or None for all."""

    __slots__ = ()

    def sum(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the sum over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).sum(dim=0, keepdim=True).tolist()
        [[2.0, 2.0, 2.0]]
        """
        return f.sum(cast("Tensor", self), axis=dim, keepdims=keepdim, dtype=dtype)

    def mean(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the mean over `dim`; integers give float64.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).mean().item()
        2.0
        """
        return f.mean(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def prod(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the product over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.0, 3.0]).prod().item()
        6.0
        """
        return f.prod(cast("Tensor", self), axis=dim, keepdims=keepdim, dtype=dtype)

    def var(self, dim: Axis = None, *, correction: float = 1.0, keepdim: bool = False) -> Tensor:
        """Return the variance over `dim`, over the count less `correction` (1, as in PyTorch).

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).var().item()
        2.0
        """
        return f.var(cast("Tensor", self), axis=dim, correction=correction, keepdims=keepdim)

    def std(self, dim: Axis = None, *, correction: float = 1.0, keepdim: bool = False) -> Tensor:
        """Return the standard deviation over `dim`: the root of ``var``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).std(correction=0).item()
        1.0
        """
        return f.std(cast("Tensor", self), axis=dim, correction=correction, keepdims=keepdim)

    def amax(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the largest element over `dim`; equal ones share the gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).amax().item()
        3.0
        """
        return f.max(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def amin(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the smallest element over `dim`; equal ones share the gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).amin().item()
        1.0
        """
        return f.min(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Return the largest element; along an int `dim` a named tuple ``(values, indices)``.

        Along a `dim` the gradient goes to the element found. With a tensor in place of `dim`, return the
        larger of each pair.

        Examples
        --------
        >>> import tensor
        >>> found = tensor.tensor([[1.0, 3.0], [5.0, 2.0]]).max(dim=1)
        >>> found.values.tolist(), found.indices.tolist()
        ([3.0, 5.0], [1, 0])
        """
        return _found(self, f.max, f.argmax, "maximum", dim, keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Return the smallest element; along an int `dim` a named tuple ``(values, indices)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1.0, 3.0], [5.0, 2.0]]).min(dim=1).values.tolist()
        [1.0, 2.0]
        """
        return _found(self, f.min, f.argmin, "minimum", dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the place of the first largest element, of the flat tensor or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).argmax().item()
        1
        """
        return f.argmax(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the place of the first smallest element, of the flat tensor or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).argmin().item()
        0
        """
        return f.argmin(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def all(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return whether all elements over `dim` are true.

        Examples
        --------
        >>> import tensor
        >>> (tensor.ones((2,)) > 0).all().item()
        True
        """
        return f.all(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def any(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return whether some element over `dim` is true.

        Examples
        --------
        >>> import tensor
        >>> (tensor.ones((2,)) > 1).any().item()
        False
        """
        return f.any(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def count_nonzero(self, dim: Axis = None) -> Tensor:
        """Return how many elements over `dim` are not 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 0, 2]).count_nonzero().item()
        2
        """
        return f.count_nonzero(cast("Tensor", self), axis=dim)

    def cumsum(self, dim: int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the running sums along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3,)).cumsum(0).tolist()
        [1.0, 2.0, 3.0]
        """
        return f.cumulative_sum(cast("Tensor", self), axis=dim, dtype=dtype)

    def cumprod(self, dim: int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the running products along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0, 3.0]).cumprod(0).tolist()
        [1.0, 2.0, 6.0]
        """
        return f.cumulative_prod(cast("Tensor", self), axis=dim, dtype=dtype)

    def logsumexp(self, dim: Axis, keepdim: bool = False) -> Tensor:
        """Return log(sum(exp(x))) over `dim`, without overflow.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1000.0]).logsumexp(0).item()
        1000.0
        """
        return f.logsumexp(cast("Tensor", self), axis=dim, keepdims=keepdim)

    def softmax(self, dim: int) -> Tensor:
        """Return exp(x) over its sum along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).softmax(0).tolist()
        [0.5, 0.5]
        """
        return f.softmax(cast("Tensor", self), axis=dim)

    def log_softmax(self, dim: int) -> Tensor:
        """Return the logarithm of ``softmax`` along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1000.0]).log_softmax(0).tolist()
        [0.0]
        """
        return f.log_softmax(cast("Tensor", self), axis=dim)

    def norm(self, p: float = 2.0, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the vector norm over `dim`: the `p`-th root of the sum of p-th powers; inf the largest.

        The gradient at a norm of 0 is 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0, 4.0]).norm().item()
        5.0
        """
        x = cast("Tensor", self)
        size = x.abs()
        if p == np.inf:
            return size.amax(dim, keepdim)
        if p == 1:
            return size.sum(dim, keepdim)
        if p == 2:
            return _root(size.square().sum(dim, keepdim))
        if p == 0:
            count: Tensor = (size != 0).sum(dim, keepdim).to(size.dtype)
            return count
        return size.pow(p).sum(dim, keepdim).pow(1 / p)


def _root(squares: Tensor) -> Tensor:
    """Return the root; where it is 0 its infinite slope is left out."""
    zero = squares == 0
    safe = squares.where(~zero, 1.0).sqrt()
    return safe.where(~zero, 0.0)


def _found(x: TensorCore, reduce: Any, locate: Any, pairwise: str, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return reduce(x)
    if isinstance(dim, TensorCore):
        return getattr(x, pairwise)(dim)
    whole = cast("Tensor", x)
    if whole.ndim == 0:
        return ValuesAndIndices(whole.clone(), locate(x, axis=None))
    indices = locate(x, axis=dim, keepdims=True)
    values = whole.take_along_dim(indices, dim)
    if keepdim:
        return ValuesAndIndices(values, indices)
    return ValuesAndIndices(values.squeeze(dim), indices.squeeze(dim))
