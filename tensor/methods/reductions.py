"""Reductions, cumulative sums, sorting and statistics as methods.

The functions are in ``reductions.py``, ``scans.py``, ``sorting.py`` and ``order_statistics.py`` of
`tensor.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._dtypes import FLOATING, Array, as_dtype, float32, int64, is_floating, is_inexact
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of, dims_of
from tensor.core.tensor import TensorCore, composite, wrap
from tensor.kernels.running import run_kernel
from tensor.ops import elementwise, reductions, scans
from tensor.ops.casts import astype
from tensor.ops.data import as_data, as_tensor
from tensor.ops.elementwise import divide, isnan, logical_not, maximum, minimum, where
from tensor.ops.joining import concat
from tensor.ops.selecting import take_along_axis
from tensor.ops.shapes import expand_dims
from tensor.ops.sorting import argsort, keys_of, order_of
from tensor.ops.writing import become
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._dtypes import Array, DtypeLike
    from tensor._tensor import Tensor
    from tensor.core.dims import Axis
    from tensor.ops import distinct, factorizations, order_statistics, results
    from tensor.ops.results import Extremes, Histogram, Sorted, ValuesAndIndices
else:
    results = ModuleOnDemand("tensor.ops.results")
    factorizations = ModuleOnDemand("tensor.ops.factorizations")
    distinct = ModuleOnDemand("tensor.ops.distinct")
    order_statistics = ModuleOnDemand("tensor.ops.order_statistics")


class Reductions(TensorCore):
    """Reductions, cumulative sums, sorting and statistics as methods."""

    __slots__ = ()

    # --- Reductions -----------------------------------------------------------------------------------------

    def sum(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the sum over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).sum(dim=0, keepdim=True).tolist()
        [[2.0, 2.0, 2.0]]
        """
        return reductions.sum(self, axis=over(dim), keepdims=keepdim, dtype=_of_totals(self, dtype))

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
        return reductions.mean(
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
        return reductions.sum(
            where(isnan(self), 0, self), axis=over(dim), keepdims=keepdim, dtype=_of_totals(self, dtype)
        )

    @composite
    def nanmean(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the mean over `dim` of the elements that are not nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan, 3.0]).nanmean().item()
        2.0
        """
        x = self if dtype is None else as_tensor(self).to(dtype)
        known = logical_not(isnan(x))
        total = reductions.sum(where(known, x, 0), axis=over(dim), keepdims=keepdim)
        return divide(total, reductions.sum(known, axis=over(dim), keepdims=keepdim, dtype=total.dtype))

    def prod(self, dim: Axis = None, keepdim: bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the product over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.0, 3.0]).prod().item()
        6.0
        """
        return reductions.prod(self, axis=dim, keepdims=keepdim, dtype=_of_totals(self, dtype))

    def var(
        self,
        dim: Axis | bool = None,
        unbiased: bool = True,
        keepdim: bool = False,
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
        return reductions.var(self, axis=axis, correction=correction, keepdims=keepdim)

    def std(
        self,
        dim: Axis | bool = None,
        unbiased: bool = True,
        keepdim: bool = False,
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
        return reductions.std(self, axis=axis, correction=correction, keepdims=keepdim)

    def amax(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the largest element over `dim`; equal elements share the gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).amax().item()
        3.0
        """
        return reductions.max(self, axis=over(dim), keepdims=keepdim)

    def amin(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return the smallest element over `dim`; equal elements share the gradient.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).amin().item()
        1.0
        """
        return reductions.min(self, axis=over(dim), keepdims=keepdim)

    @overload
    def max(self, dim: None = None) -> Tensor: ...

    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices: ...

    @overload
    def max(self, dim: TensorCore) -> Tensor: ...

    @overload
    def max(self, *, other: TensorCore) -> Tensor: ...

    def max(
        self, dim: int | TensorCore | None = None, keepdim: bool = False, *, other: TensorCore | None = None
    ) -> Tensor | ValuesAndIndices:
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
        given = dim if other is None else other
        return _found(self, reductions.max, reductions.max_along, maximum, given, keepdim)

    @overload
    def min(self, dim: None = None) -> Tensor: ...

    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesAndIndices: ...

    @overload
    def min(self, dim: TensorCore) -> Tensor: ...

    @overload
    def min(self, *, other: TensorCore) -> Tensor: ...

    def min(
        self, dim: int | TensorCore | None = None, keepdim: bool = False, *, other: TensorCore | None = None
    ) -> Tensor | ValuesAndIndices:
        """Return the smallest element; along an int `dim` a named tuple ``(values, indices)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1.0, 3.0], [5.0, 2.0]]).min(dim=1).values.tolist()
        [1.0, 2.0]
        """
        given = dim if other is None else other
        return _found(self, reductions.min, reductions.min_along, minimum, given, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the first largest element, of the flattened tensor or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).argmax().item()
        1
        """
        return reductions.argmax(self, axis=dim, keepdims=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the first smallest element, of the flattened tensor or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 3.0]).argmin().item()
        0
        """
        return reductions.argmin(self, axis=dim, keepdims=keepdim)

    def all(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return whether all elements over `dim` are true.

        Examples
        --------
        >>> import tensor
        >>> (tensor.ones((2,)) > 0).all().item()
        True
        """
        return reductions.all(self, axis=dim, keepdims=keepdim)

    def any(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """Return whether any element over `dim` is true.

        Examples
        --------
        >>> import tensor
        >>> (tensor.ones((2,)) > 1).any().item()
        False
        """
        return reductions.any(self, axis=dim, keepdims=keepdim)

    def count_nonzero(self, dim: Axis = None) -> Tensor:
        """Return the number of nonzero elements over `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 0, 2]).count_nonzero().item()
        2
        """
        return reductions.count_nonzero(self, axis=over(dim))

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

    @composite
    def cumsum_(self, dim: int, *, dtype: DtypeLike | None = None) -> Self:
        """Write the result of ``cumsum`` to the tensor, which keeps its shape and dtype."""
        become("cumsum", as_tensor(self), as_tensor(self).cumsum(dim, dtype=dtype))
        return self

    @composite
    def cumprod_(self, dim: int, *, dtype: DtypeLike | None = None) -> Self:
        """Write the result of ``cumprod`` to the tensor, which keeps its shape and dtype."""
        become("cumprod", as_tensor(self), as_tensor(self).cumprod(dim, dtype=dtype))
        return self

    # --- Sorting --------------------------------------------------------------------------------------------

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Sorted:
        """Return the sorted elements along `dim`, and their indices in the tensor.

        Examples
        --------
        >>> import tensor
        >>> values, indices = tensor.tensor([3, 1, 2]).sort()
        >>> values.tolist(), indices.tolist()
        ([1, 2, 3], [1, 2, 0])
        """
        x = as_tensor(self)
        indices = argsort(x, axis=dim, descending=descending, stable=stable)
        return results.Sorted(x.clone() if x.ndim == 0 else take_along_axis(x, indices, axis=dim), indices)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """Return the indices that sort the tensor along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3, 1, 2]).argsort(descending=True).tolist()
        [0, 2, 1]
        """
        return argsort(as_tensor(self), axis=dim, descending=descending, stable=stable)

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sorted:
        """Return the `k` largest (or smallest) elements along `dim`, sorted, and their indices.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3, 1, 2]).topk(2).values.tolist()
        [3, 2]
        """
        del sorted  # the results are always sorted
        x = as_tensor(self)
        place = dim_of("topk", dim, x.ndim or 1)
        size = x.shape[place] if x.ndim else 1
        if not 0 <= k <= size:
            raise InvalidArgumentError(
                f"topk: k must be from 0 to {size}, the size of dimension {dim}, not {k}"
            )
        if x.ndim == 0:
            return x.sort() if k else x.reshape(1).topk(0)
        indices = wrap(run_kernel(_first_of_order, keys_of(x), place, largest, k))
        return results.Sorted(take_along_axis(x, indices, axis=place), indices)

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Tensor: ...

    @overload
    def unique(
        self,
        sorted: bool,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def unique(
        self,
        sorted: bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: Literal[False] = False,
        *,
        return_counts: Literal[True],
        dim: int | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def unique(
        self,
        sorted: bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[True],
        dim: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Tensor | tuple[Tensor, ...]: ...

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the distinct elements, in order, in one dimension.

        Parameters
        ----------
        sorted
            No effect, because the elements are always sorted.
        return_inverse, return_counts
            Whether to also return the index of each element in the result, and the counts.
        dim
            The dimension whose slices are compared instead of elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3, 1, 3]).unique().tolist()
        [1, 3]
        """
        del sorted
        x = as_tensor(self)
        found = distinct.unique_all(x) if dim is None else distinct.unique_parts(x, dim)
        asked = {"inverse_indices": return_inverse, "counts": return_counts}
        more = [getattr(found, name) for name, is_asked in asked.items() if is_asked]
        return (found.values, *more) if more else found.values

    # --- Order statistics -----------------------------------------------------------------------------------

    @composite
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Sorted:
        """Return the `k`-th smallest element along `dim`, counted from 1, and its index.

        Examples
        --------
        >>> import tensor
        >>> found = tensor.tensor([5.0, 1.0, 3.0]).kthvalue(2)
        >>> found.values.item(), found.indices.item()
        (3.0, 2)
        """
        x = as_tensor(self)
        place = dim_of("kthvalue", dim, x.ndim or 1)
        size = x.shape[place] if x.ndim else 1
        if not 1 <= k <= size:
            raise InvalidArgumentError(f"kthvalue: k must be from 1 to {size}, not {k}")
        return _at(x, k - 1, dim, keepdim)

    @overload
    def median(self, dim: None = None) -> Tensor: ...

    @overload
    def median(self, dim: int, keepdim: bool = False) -> Sorted: ...

    @composite
    def median(self, dim: int | None = None, keepdim: bool = False) -> Tensor | Sorted:
        """Return the median, the lower of two middle elements; along `dim` with its index.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([[5.0, 1.0, 3.0, 2.0]])
        >>> x.median().item(), x.median(dim=1).indices.tolist()
        (2.0, [3])
        """
        x = as_tensor(self)
        if dim is None:
            flat = x.reshape(-1)
            if flat.shape == (0,):
                return flat.new_full((), float("nan"))
            return order_statistics.shared_by_equals(flat, flat.median(0).values)
        place = dim_of("median", dim, x.ndim or 1)
        size = x.shape[place] if x.ndim else 1
        if size == 0:
            raise IndexError(f"median: dimension {dim} of shape {x.shape} is empty")
        found = _at(x, (size - 1) // 2, dim, keepdim)
        if not is_floating(x.dtype):
            return found
        # nan sorts last, and the median of data with a nan is nan.
        unknown = isnan(x)
        places = unknown.to(np.int64).argmax(dim, keepdim)
        some = unknown.any(dim, keepdim)
        return results.Sorted(where(some, float("nan"), found.values), where(some, places, found.indices))

    @composite
    def quantile(
        self,
        q: float | Sequence[float] | Tensor,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the quantiles `q`, between 0 and 1, over `dim`. Several `q` give a new first dimension.

        Parameters
        ----------
        interpolation
            The interpolation between two elements: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``,
            ``"midpoint"``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0, 3.0, 4.0]).quantile([0.5, 1.0]).tolist()
        [2.5, 4.0]
        """
        return order_statistics.quantiles("quantile", as_tensor(self), q, dim, keepdim, interpolation)

    def msort(self) -> Tensor:
        """Return the elements sorted along the first dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3, 1, 2]).msort().tolist()
        [1, 2, 3]
        """
        return as_tensor(self).sort(0).values

    # --- Counting and other statistics ----------------------------------------------------------------------

    @composite
    def bincount(self, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        """Return the counts of 0, 1, 2, ..., or the sums of their `weights`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0, 2, 2]).bincount().tolist()
        [1, 0, 2]
        """
        array = self._live_array()
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
            raise InvalidArgumentError(
                "bincount takes one dimension of integers of at least 0, not "
                f"{array.dtype}{list(array.shape)}"
            )
        if minlength < 0:
            raise InvalidArgumentError(f"bincount: minlength must be at least 0, not {minlength}")
        factors = None if weights is None else as_data(weights, None)
        if factors is not None and factors.shape != array.shape:
            raise InvalidArgumentError(
                f"bincount: weights must have the shape of the tensor, {array.shape}, not {factors.shape}"
            )
        out = run_kernel(np.bincount, array, factors, minlength)
        is_single = factors is not None and factors.dtype == np.float32
        return wrap(out.astype(np.float32) if is_single else out)

    @composite
    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """Return the number of elements in each of `bins` equal intervals from `min` to `max`.

        If both are 0, the range is from the smallest to the largest element.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0, 1.0]).histc(bins=4, min=0, max=3).tolist()
        [0.0, 2.0, 1.0, 0.0]
        """
        array = self._live_array()
        edges = _edges("histc", array, bins, (float(min), float(max)))
        return wrap(run_kernel(np.histogram, array, bins, edges)[0].astype(array.dtype))

    @composite
    def histogram(
        self,
        bins: int | Tensor,
        *,
        range: tuple[float, float] | None = None,
        weight: Tensor | None = None,
        density: bool = False,
    ) -> Histogram:
        """Return the number of elements in each bin, and the edges of the bins.

        Parameters
        ----------
        bins
            The number of bins of equal width, or the edges in ascending order.
        range
            The range of the bins, if `bins` is a number; by default from the smallest to the largest element.
        weight
            The weight of each element.
        density
            Whether to divide the counts so that the integral over all bins is 1.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0, 1.0]).histogram(2, range=(0.0, 3.0)).hist.tolist()
        [2.0, 1.0]
        """
        array = self._live_array()
        if not is_floating(array.dtype):
            raise TypeError(f"histogram takes floating tensors, not {array.dtype}: convert it with x.float()")
        factors = None if weight is None else as_data(weight, None).reshape(-1)
        if isinstance(bins, TensorCore):
            edges: Any = as_data(bins, None)
            counts, limits = run_kernel(np.histogram, array.reshape(-1), edges, None, density, factors)
        else:
            limits_of = _edges("histogram", array, bins, range or (0.0, 0.0))
            counts, limits = run_kernel(np.histogram, array.reshape(-1), bins, limits_of, density, factors)
        return results.Histogram(wrap(counts.astype(array.dtype)), wrap(limits.astype(array.dtype)))

    @composite
    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
        """Return the smallest and the largest element, of all or along `dim`.

        Examples
        --------
        >>> import tensor
        >>> [x.item() for x in tensor.tensor([3, 1, 2]).aminmax()]
        [1, 3]
        """
        x = as_tensor(self)
        return results.Extremes(x.amin(dim, keepdim), x.amax(dim, keepdim))

    @composite
    def cummax(self, dim: int) -> Sorted:
        """Return the cumulative maximum along `dim`, and its indices, the last of equal elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 3, 2]).cummax(0).values.tolist()
        [1, 3, 3]
        """
        return _running("cummax", as_tensor(self), dim, np.greater_equal)

    @composite
    def cummin(self, dim: int) -> Sorted:
        """Return the cumulative minimum along `dim`, and its indices, the last of equal elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, 1, 3]).cummin(0).indices.tolist()
        [0, 1, 1]
        """
        return _running("cummin", as_tensor(self), dim, np.less_equal)

    @composite
    def logcumsumexp(self, dim: int) -> Tensor:
        """Return the logarithm of the cumulative sum of exponentials along `dim`, without overflow.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).logcumsumexp(0).exp().tolist()
        [1.0, 2.0]
        """
        x = as_tensor(self)
        array = x._live_array()
        if not is_inexact(array.dtype):
            raise TypeError(
                f"logcumsumexp takes floating tensors, not {array.dtype}: convert it with x.float()"
            )
        if x.ndim == 0:
            dim_of("logcumsumexp", dim, 1)
            return x.clone()
        place = dim_of("logcumsumexp", dim, x.ndim)
        out = run_kernel(np.logaddexp.accumulate, array, place)
        return wrap_recorded(out, record(RULES["logcumsumexp"], (x,), out, {"axis": place}))

    @composite
    def mode(self, dim: int = -1, keepdim: bool = False) -> Sorted:
        """Return the most frequent element along `dim`, or the smallest of several, and its last index.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, 1, 2, 1, 3]).mode().values.item()
        1
        """
        x = as_tensor(self)
        if x.ndim == 0:
            dim_of("mode", dim, 1)
            return results.Sorted(x.clone(), x.new_zeros((), dtype=np.int64))
        place = dim_of("mode", dim, x.ndim)
        if x.shape[place] == 0:
            raise IndexError(f"mode: dimension {dim} of shape {x.shape} is empty")
        array = np.moveaxis(keys_of(x), place, -1)
        places = np.empty(array.shape[:-1], np.int64)
        for at in np.ndindex(places.shape):
            places[at] = _place_of_mode(array[at])
        indices = wrap(np.expand_dims(places, place))
        found = results.Sorted(take_along_axis(x, indices, axis=place), indices)
        return found if keepdim else results.Sorted(found.values.squeeze(place), indices.squeeze(place))

    @composite
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Tensor | Sorted:
        """Return the median of all elements that are not nan; along `dim` with its index.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan, 3.0]).nanmedian().item()
        1.0
        """
        x = as_tensor(self)
        if dim is None:
            flat = x.reshape(-1)
            if flat.shape == (0,):
                return flat.new_full((), math.nan)
            return order_statistics.shared_by_equals(flat, _nanmedian_along(flat, 0, False).values)
        return _nanmedian_along(x, dim, keepdim)

    @composite
    def nanquantile(
        self,
        q: float | Sequence[float] | Tensor,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the result of ``quantile`` for the elements that are not nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan, 3.0]).nanquantile(0.5).item()
        2.0
        """
        return order_statistics.quantiles("nanquantile", as_tensor(self), q, dim, keepdim, interpolation)

    @composite
    def renorm(self, p: float, dim: int, maxnorm: float) -> Tensor:
        """Return the tensor with each slice along `dim` scaled to a `p`-norm of at most `maxnorm`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[3.0, 4.0]]).renorm(2, 0, 10.0).tolist()
        [[3.0, 4.0]]
        """
        x = as_tensor(self)
        if p <= 0 or maxnorm < 0:
            raise InvalidArgumentError(
                f"renorm: p must be above 0 and maxnorm at least 0, not {p} and {maxnorm}"
            )
        if x.ndim < 2:
            raise InvalidArgumentError(f"renorm takes at least two dimensions, not shape {x.shape}")
        place = dim_of("renorm", dim, x.ndim)
        others = tuple(i for i in range(x.ndim) if i != place)
        norms = x.norm(p, others, True)
        factor = elementwise.where(
            elementwise.greater(norms, maxnorm),
            elementwise.divide(maxnorm, elementwise.add(norms, 1e-7)),
            1.0,
        )
        return elementwise.multiply(x, factor)

    @composite
    def diff(
        self, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Return the `n`-th differences along `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 4, 9]).diff().tolist()
        [3, 5]
        """
        x = as_tensor(self)
        if x.ndim == 0:
            raise InvalidArgumentError("diff takes at least one dimension: reshape the tensor to (1,) first")
        place = dim_of("diff", dim, x.ndim)
        if n < 0:
            raise InvalidArgumentError(f"diff: n must be at least 0, not {n}")
        ends = [y for y in (prepend, x, append) if y is not None]
        for y in ends:
            if as_tensor(y).ndim != x.ndim:
                raise InvalidArgumentError(
                    f"diff: prepend and append must have {x.ndim} dimensions, not shape {as_tensor(y).shape}"
                )
        for _ in range(n):
            if len(ends) > 1:
                x, ends = concat([as_tensor(y) for y in ends], axis=place), []
            before = (slice(None),) * place
            later, earlier = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
            x = (
                elementwise.not_equal(later, earlier)
                if x.dtype.kind == "b"
                else elementwise.subtract(later, earlier)
            )
        return x

    @composite
    def cov(
        self, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
    ) -> Tensor:
        """Return the covariance matrix of variables. Rows are variables, columns are observations.

        Parameters
        ----------
        correction
            The number to subtract from the number of observations.
        fweights
            The frequency of each observation.
        aweights
            The weight of each observation.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[0.0, 2.0], [1.0, 3.0]]).cov().tolist()
        [[2.0, 2.0], [2.0, 2.0]]
        """
        given = as_tensor(self)
        if given.ndim > 2:
            raise InvalidArgumentError(f"cov takes at most two dimensions, not shape {given.shape}")
        x = given if is_inexact(given.dtype) else given.to(np.float32)
        x = x.reshape(1, -1) if x.ndim < 2 else x
        for name, each, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, FLOATING)):
            if each is not None and as_tensor(each).dtype.kind not in kinds:
                raise TypeError(
                    f"cov: {name} has dtype {as_tensor(each).dtype}: fweights must be integers, and aweights "
                    "floating numbers"
                )
            if each is not None and (as_tensor(each)._live_array() < 0).any():
                raise InvalidArgumentError(f"cov: {name} must be at least 0")
        weights: Tensor | None = None
        for each in (fweights, aweights):
            if each is not None:
                if as_tensor(each).shape != (x.shape[1],):
                    raise InvalidArgumentError(
                        f"cov takes one weight for each of the {x.shape[1]} observations"
                    )
                more = as_tensor(each).to(x.dtype)
                weights = more if weights is None else weights * more
        if weights is None:
            total: Any = x.shape[1]
            mean = x.mean(1, True)
            norm: Any = total - correction
        else:
            total = weights.sum()
            mean = (x * weights).sum(1, True) / total
            if aweights is None or correction == 0:
                norm = total - correction
            else:
                norm = total - correction * (weights * as_tensor(aweights).to(x.dtype)).sum() / total
        centred = x - mean
        weighted = centred if weights is None else centred * weights
        norm = norm.clamp(min=0) if isinstance(norm, TensorCore) else max(norm, 0)  # type: ignore[attr-defined]
        out = weighted @ centred.mH / (norm if isinstance(norm, TensorCore) else float(norm))
        return out.squeeze()

    @composite
    def corrcoef(self) -> Tensor:
        """Return the correlation coefficients of variables, which are rows.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[0.0, 2.0], [3.0, 1.0]]).corrcoef().tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        found = as_tensor(self).cov()
        if found.ndim == 0:
            return found / found
        deviations = found.diagonal().sqrt()
        return (found / deviations.unsqueeze(0) / deviations.unsqueeze(1)).clamp(-1, 1)

    @composite
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the tensor without consecutive duplicates of elements, or of slices along `dim`.

        Parameters
        ----------
        return_inverse, return_counts
            Whether to return also the index of each element in the result, and the counts.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 1, 2, 1]).unique_consecutive().tolist()
        [1, 2, 1]
        """
        x = as_tensor(self)
        array = x._live_array()
        parts = (
            array.reshape(-1)
            if dim is None
            else np.moveaxis(array, dim_of("unique_consecutive", dim, x.ndim), 0)
        )
        count = parts.shape[0]
        changes = (parts[1:] != parts[:-1]).any(tuple(range(1, parts.ndim)))
        starts = np.flatnonzero(np.r_[True, changes][:count])
        kept = parts[starts]
        values = wrap(kept.copy() if dim is None else np.moveaxis(kept, 0, dim).copy())
        more = []
        if return_inverse:
            inverse = np.cumsum(np.r_[False, changes][:count], dtype=np.int64)
            more.append(wrap(inverse.reshape(array.shape) if dim is None else inverse))
        if return_counts:
            more.append(wrap(np.diff(np.r_[starts, count]).astype(np.int64)))
        return (values, *more) if more else values

    @composite
    def renorm_(self, p: float, dim: int, maxnorm: float) -> Self:
        """Write the result of ``renorm`` to the tensor, which keeps its shape and dtype."""
        become("renorm", as_tensor(self), as_tensor(self).renorm(p, dim, maxnorm))
        return self


def over(dim: Axis) -> Axis:
    """Return the dimensions to reduce. An empty tuple means all, as in PyTorch."""
    return None if isinstance(dim, (tuple, list)) and not dim else dim


def _of_totals(x: TensorCore, dtype: DtypeLike | None) -> DtypeLike | None:
    """Return the dtype of a sum or product of `x`: int64 for unsigned integers too, as in PyTorch."""
    return int64 if dtype is None and as_tensor(x).dtype.kind == "u" else dtype


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


def _first_of_order(array: Array, place: int, descending: bool, k: int) -> Array:
    return order_of(array, place, descending)[(*[slice(None)] * place, slice(k))].copy()


def _at(x: Tensor, place: int, dim: int, keepdim: bool) -> Sorted:
    """Return the element at `place` of the sorted order along `dim`, and its index."""
    if x.ndim == 0:
        return results.Sorted(x.clone(), x.new_zeros((), dtype=np.int64))
    ordered = x.sort(dim)
    values, indices = ordered.values.narrow(dim, place, 1), ordered.indices.narrow(dim, place, 1)
    if keepdim:
        return results.Sorted(values.clone(), indices.clone())
    return results.Sorted(values.squeeze(dim).clone(), indices.squeeze(dim).clone())


def _edges(name: str, array: Array, bins: int, limits: tuple[float, float]) -> tuple[float, float]:
    if bins < 1:
        raise InvalidArgumentError(f"{name}: bins must be at least 1, not {bins}")
    low, high = limits
    if low > high:
        raise InvalidArgumentError(
            f"{name}: the upper limit {high} must not be less than the lower one {low}"
        )
    if low == high == 0 and not array.size:
        return 0.0, 1.0
    if low == high:
        if low == 0:
            low, high = float(array.min()), float(array.max())
        if low == high:
            half = 1.0 if name == "histc" else 0.5
            low, high = low - half, high + half
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidArgumentError(f"{name}: the range from {low} to {high} is not finite")
    return low, high


def _running(name: str, x: Tensor, dim: int, replaces: np.ufunc) -> Sorted:
    place = dim_of(name, dim, x.ndim or 1)
    if x.ndim == 0:
        return results.Sorted(x.clone(), x.new_zeros((), dtype=np.int64))
    array = np.moveaxis(x._live_array(), place, 0)
    indices = np.zeros(array.shape, np.int64)
    if array.size:
        best = array[0].copy()
        is_nan = np.isnan(array) if is_floating(array.dtype) else None
        for i in range(1, array.shape[0]):
            is_new = replaces(array[i], best)
            if is_nan is not None:
                is_new |= is_nan[i]
            best = np.where(is_new, array[i], best)
            indices[i] = np.where(is_new, i, indices[i - 1])
    found = wrap(np.moveaxis(indices, 0, place).copy())
    return results.Sorted(take_along_axis(x, found, axis=place), found)


def _nanmedian_along(x: Tensor, dim: int, keepdim: bool) -> Sorted:
    place = dim_of("nanmedian", dim, x.ndim or 1)
    if x.ndim == 0:
        return results.Sorted(x.clone(), x.new_zeros((), dtype=np.int64))
    if x.shape[place] == 0:
        raise IndexError(f"nanmedian: dimension {dim} of shape {x.shape} is empty")
    order = x.argsort(place)
    known = np.count_nonzero(~np.isnan(x._live_array()), place, keepdims=True)
    indices = take_along_axis(order, wrap(np.maximum(known - 1, 0) // 2), axis=place)
    found = results.Sorted(take_along_axis(x, indices, axis=place), indices)
    return found if keepdim else results.Sorted(found.values.squeeze(place), indices.squeeze(place))


def _place_of_mode(row: Array) -> int:
    """Return the last place of the value that is most frequent; of several, the smallest."""
    values, counts = np.unique(row, return_counts=True, equal_nan=False)
    # Each nan counts as one value, and as the smallest, as in PyTorch.
    if counts.max() == 1 and values[-1] != values[-1]:
        return int(np.flatnonzero(row != row)[0])
    return int(np.flatnonzero(row == values[counts.argmax()])[-1])
