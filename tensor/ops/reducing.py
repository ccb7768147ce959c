"""Reductions as methods, with PyTorch's names and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, overload

from scopes.lowlevel import ModuleOnDemand
from tensor._dtypes import as_dtype, float32, int64, is_inexact
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dims_of
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops import reductions as f
from tensor.ops import scans
from tensor.ops.casts import astype
from tensor.ops.data import as_tensor
from tensor.ops.elementwise import divide, isnan, logical_not, maximum, minimum, where
from tensor.ops.in_place import with_in_place
from tensor.ops.shapes import expand_dims

if TYPE_CHECKING:
    from tensor._dtypes import DtypeLike
    from tensor._tensor import Tensor
    from tensor.core.dims import Axis
    from tensor.ops import factorizations, results
    from tensor.ops.results import ValuesAndIndices
else:
    factorizations = ModuleOnDemand("tensor.ops.factorizations")
    results = ModuleOnDemand("tensor.ops.results")


# Another name for `bool`, which is a method of another mixin.
Flag = bool


def over(dim: Axis) -> Axis:
    """Return the dimensions to reduce. An empty tuple means all, as in PyTorch."""
    return None if isinstance(dim, (tuple, list)) and not dim else dim


def _of_totals(x: TensorCore, dtype: DtypeLike | None) -> DtypeLike | None:
    """Return the dtype of a sum or product of `x`: int64 for unsigned integers too, as in PyTorch."""
    return int64 if dtype is None and as_tensor(x).dtype.kind == "u" else dtype


@with_in_place("cumsum cumprod")
class Reductions(TensorCore):
    """Reductions; `dim` is an int, several ints, or None for all dimensions."""

    __slots__ = ()

    def sum(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the sum over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).sum(dim=0, keepdim=True).tolist()
        [[2.0, 2.0, 2.0]]
        """
        return f.sum(self, axis=over(dim), keepdims=keepdim, dtype=_of_totals(self, dtype))

    def mean(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the mean over `dim`, computed in `dtype`; integers give float32.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).mean().item()
        2.0
        """
        if dtype is not None and not is_inexact(as_dtype(dtype)):
            raise TypeError(f"mean: dtype must be floating or complex, not {as_dtype(dtype)}")
        return f.mean(
            self if dtype is None else astype(as_tensor(self), dtype), axis=over(dim), keepdims=keepdim
        )

    @composite
    def nansum(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the sum over `dim` of the elements that are not nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan]).nansum().item()
        1.0
        """
        return f.sum(
            where(isnan(self), 0, self), axis=over(dim), keepdims=keepdim, dtype=_of_totals(self, dtype)
        )

    @composite
    def nanmean(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the mean over `dim` of the elements that are not nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan, 3.0]).nanmean().item()
        2.0
        """
        known = logical_not(isnan(self))
        total = f.sum(where(known, self, 0), axis=over(dim), keepdims=keepdim)
        return divide(total, f.sum(known, axis=over(dim), keepdims=keepdim, dtype=total.dtype))

    def prod(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the product over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.0, 3.0]).prod().item()
        6.0
        """
        return f.prod(self, axis=dim, keepdims=keepdim, dtype=_of_totals(self, dtype))

    def var(
        self,
        dim: Axis | Flag = None,
        unbiased: Flag = True,
        keepdim: Flag = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """Return the variance over `dim`.

        The divisor is the count minus 1, or the count with ``unbiased=False``.

        Parameters
        ----------
        correction
            The number to subtract from the count, instead of `unbiased`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).var().item()
        2.0
        """
        axis, correction = _axis_and_correction(dim, unbiased, correction)
        return f.var(self, axis=axis, correction=correction, keepdims=keepdim)

    def std(
        self,
        dim: Axis | Flag = None,
        unbiased: Flag = True,
        keepdim: Flag = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """Return the standard deviation over `dim`: the square root of ``var``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).std(correction=0).item()
        1.0
        """
        axis, correction = _axis_and_correction(dim, unbiased, correction)
        return f.std(self, axis=axis, correction=correction, keepdims=keepdim)

    def amax(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the largest element over `dim`; equal elements share the gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).amax().item()
        3.0
        """
        return f.max(self, axis=over(dim), keepdims=keepdim)

    def amin(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the smallest element over `dim`; equal elements share the gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).amin().item()
        1.0
        """
        return f.min(self, axis=over(dim), keepdims=keepdim)

    @overload
    def max(self, dim: None = None) -> Tensor: ...
    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices: ...
    @overload
    def max(self, dim: TensorCore) -> Tensor: ...
    def max(self, dim: int | TensorCore | None = None, keepdim: bool = False) -> Tensor | ValuesAndIndices:
        """Return the largest element; along an int `dim` a named tuple ``(values, indices)``.

        Along a `dim` the gradient goes to the selected element. With a tensor instead of `dim`, return the
        elementwise maximum.

        Examples
        --------
        >>> import tensor
        >>> found = tensor.tensor([[1.0, 3.0], [5.0, 2.0]]).max(dim=1)
        >>> found.values.tolist(), found.indices.tolist()
        ([3.0, 5.0], [1, 0])
        """
        return _found(self, f.max, f.max_along, maximum, dim, keepdim)

    @overload
    def min(self, dim: None = None) -> Tensor: ...
    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesAndIndices: ...
    @overload
    def min(self, dim: TensorCore) -> Tensor: ...
    def min(self, dim: int | TensorCore | None = None, keepdim: bool = False) -> Tensor | ValuesAndIndices:
        """Return the smallest element; along an int `dim` a named tuple ``(values, indices)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1.0, 3.0], [5.0, 2.0]]).min(dim=1).values.tolist()
        [1.0, 2.0]
        """
        return _found(self, f.min, f.min_along, minimum, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the first largest element, of the flattened tensor or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).argmax().item()
        1
        """
        return f.argmax(self, axis=dim, keepdims=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the first smallest element, of the flattened tensor or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).argmin().item()
        0
        """
        return f.argmin(self, axis=dim, keepdims=keepdim)

    def all(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return whether all elements over `dim` are true.

        Examples
        --------
        >>> import tensor
        >>> (tensor.ones((2,)) > 0).all().item()
        True
        """
        return f.all(self, axis=dim, keepdims=keepdim)

    def any(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return whether any element over `dim` is true.

        Examples
        --------
        >>> import tensor
        >>> (tensor.ones((2,)) > 1).any().item()
        False
        """
        return f.any(self, axis=dim, keepdims=keepdim)

    def count_nonzero(self, dim: Axis = None) -> Tensor:
        """Return the number of nonzero elements over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 0, 2]).count_nonzero().item()
        2
        """
        return f.count_nonzero(self, axis=over(dim))

    def cumsum(self, dim: int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the cumulative sum along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3,)).cumsum(0).tolist()
        [1.0, 2.0, 3.0]
        """
        return scans.cumulative_sum(self, axis=dim, dtype=_of_totals(self, dtype))

    def cumprod(self, dim: int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the cumulative product along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0, 3.0]).cumprod(0).tolist()
        [1.0, 2.0, 6.0]
        """
        return scans.cumulative_prod(self, axis=dim, dtype=_of_totals(self, dtype))

    def logsumexp(self, dim: Axis, keepdim: bool = False) -> Tensor:
        """Return log(sum(exp(x))) over `dim`, without overflow.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1000.0]).logsumexp(0).item()
        1000.0
        """
        x = as_tensor(self)
        return scans.logsumexp(x if is_inexact(x.dtype) else astype(x, float32), axis=dim, keepdims=keepdim)

    def softmax(self, dim: int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return ``exp(x) / exp(x).sum(dim)``, computed in `dtype`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).softmax(0).tolist()
        [0.5, 0.5]
        """
        return scans.softmax(self if dtype is None else astype(as_tensor(self), dtype), axis=dim)

    def log_softmax(self, dim: int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the logarithm of ``softmax`` along `dim`, computed in `dtype`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1000.0]).log_softmax(0).tolist()
        [0.0]
        """
        return scans.log_softmax(self if dtype is None else astype(as_tensor(self), dtype), axis=dim)

    def norm(self, p: float | str = 2.0, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the vector norm of order `p` over `dim`; for inf the largest absolute value.

        The gradient at a norm of 0 is 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0, 4.0]).norm().item()
        5.0
        """
        if p == "nuc":
            return _nuclear_norm(as_tensor(self), dim, keepdim)
        return scans.vector_norm(self, axis=over(dim), keepdims=keepdim, ord=_order(p))


def _axis_and_correction(dim: Axis | bool, unbiased: bool, correction: float | None) -> tuple[Axis, float]:
    """Return the dimensions and the correction. A bool as `dim`, in ``x.std(False)``, means `unbiased`."""
    axis: Axis
    if isinstance(dim, bool):
        axis, unbiased = None, dim
    else:
        axis = over(dim)
    return axis, float(unbiased) if correction is None else correction


def _nuclear_norm(x: Tensor, dim: Axis, keepdim: bool) -> Tensor:
    places = (-2, -1) if dim is None else dim
    if isinstance(places, int) or len(places) != 2 or (dim is None and x.ndim != 2):
        raise InvalidArgumentError(
            f"norm: 'nuc' is a norm of matrices, and shape {x.shape} "
            + ("has fewer than two dimensions" if x.ndim < 2 else "needs dim= with two dimensions")
        )
    first, second = dims_of("norm", tuple(places), x.ndim)
    found = factorizations.svdvals(x.movedim((first, second), (-2, -1))).sum(-1)
    return expand_dims(found, axis=tuple(sorted((first, second)))) if keepdim else found


def _order(p: float | str) -> float:
    if isinstance(p, (int, float)):
        return p
    if p == "fro":
        return 2.0
    if isinstance(p, str):
        raise InvalidArgumentError(f"norm: p must be a number, inf, 'nuc' or 'fro', not {shown(p)}")
    raise TypeError(f"norm: p must be a number, inf, 'nuc' or 'fro', not {type(p).__name__}")


def _found(
    x: TensorCore,
    whole: Callable[..., Tensor],
    along: Callable[..., tuple[Tensor, Tensor]],
    of_pairs: Callable[..., Tensor],
    dim: int | TensorCore | None,
    keepdim: bool,
) -> Tensor | ValuesAndIndices:
    if dim is None:
        return whole(x)
    if isinstance(dim, TensorCore):
        return of_pairs(x, dim)
    return results.ValuesAndIndices(*along(x, dim, keepdim))
