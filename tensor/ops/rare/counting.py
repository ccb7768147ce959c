"""Counts, histograms, modes and cumulative extremes as methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._dtypes import FLOATING, is_floating, is_inexact
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.context import run_kernel
from tensor.ops import elementwise as f
from tensor.ops.data import as_data, as_tensor
from tensor.ops.in_place import with_in_place
from tensor.ops.joining import concat
from tensor.ops.order_statistics import quantiles, shared_by_equals
from tensor.ops.selecting import take_along_axis
from tensor.ops.sorting import keys_of
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._dtypes import Array
    from tensor._tensor import Tensor
    from tensor.ops import results
    from tensor.ops.results import Extremes, Histogram, Sorted
else:
    results = ModuleOnDemand("tensor.ops.results")


@with_in_place("renorm")
class Counting(TensorCore):
    """Methods that count elements or find them by their order."""

    __slots__ = ()

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
            return shared_by_equals(flat, _nanmedian_along(flat, 0, False).values)
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
        return quantiles("nanquantile", as_tensor(self), q, dim, keepdim, interpolation)

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
        factor = f.where(f.greater(norms, maxnorm), f.divide(maxnorm, f.add(norms, 1e-7)), 1.0)
        return f.multiply(x, factor)

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
            x = f.not_equal(later, earlier) if x.dtype.kind == "b" else f.subtract(later, earlier)
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
