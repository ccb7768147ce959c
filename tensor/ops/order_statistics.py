"""Methods that find elements by their place in the order: medians, quantiles, the k-th smallest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, overload

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_data, as_tensor
from tensor.ops.elementwise import isnan, lerp, where
from tensor.ops.joining import stack
from tensor.ops.sorting import Sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor._tensor import Tensor


class OrderStatistics(TensorCore):
    """Order statistics; gradients go to the elements found."""

    __slots__ = ()

    @composite
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Sorted:
        """Return the `k`-th smallest element along `dim`, counted from 1, and its place.

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
            raise InvalidArgumentError(f"kthvalue: k lies between 1 and {size}, not {k}")
        return _at(x, k - 1, dim, keepdim)

    @overload
    def median(self, dim: None = None) -> Tensor: ...
    @overload
    def median(self, dim: int, keepdim: bool = False) -> Sorted: ...
    @composite
    def median(self, dim: int | None = None, keepdim: bool = False) -> Tensor | Sorted:
        """Return the median, the lower of the two middle ones; along `dim` with its place.

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
            return flat.median(0).values
        place = dim_of("median", dim, x.ndim or 1)
        size = x.shape[place] if x.ndim else 1
        if size == 0:
            raise IndexError(f"median: dimension {dim} of shape {x.shape} is empty")
        found = _at(x, (size - 1) // 2, dim, keepdim)
        if x.dtype.kind != "f":
            return found
        # nan is behind all numbers in order, and the median of all that holds one.
        unknown = isnan(x)
        places = unknown.to(np.int64).argmax(dim, keepdim)
        some = unknown.any(dim, keepdim)
        return Sorted(where(some, float("nan"), found.values), where(some, places, found.indices))

    @composite
    def quantile(
        self,
        q: float | Sequence[float] | Tensor,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the quantiles `q`, between 0 and 1, over `dim`; several stand in a new first dimension.

        Parameters
        ----------
        interpolation
            What lies between two elements: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``,
            ``"midpoint"``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0, 3.0, 4.0]).quantile([0.5, 1.0]).tolist()
        [2.5, 4.0]
        """
        x = as_tensor(self)
        if x.dtype.kind != "f":
            raise TypeError(f"quantile takes floating tensors, not {x.dtype}: convert it with x.float()")
        wanted = np.atleast_1d(as_data(q, x.dtype))
        if wanted.ndim > 1 or wanted.size == 0 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise InvalidArgumentError("quantile: q is a number between 0 and 1, or several in one dimension")
        rank = x.ndim
        place = 0 if dim is None else dim_of("quantile", dim, max(rank, 1))
        is_flat = dim is None or rank == 0
        ordered = (x.reshape(-1) if is_flat else x.movedim(place, 0)).sort(0).values
        count = ordered.shape[0]
        if count == 0:
            raise InvalidArgumentError("quantile: an empty tensor has no quantiles")
        # In the tensor's own precision, as PyTorch: 0.1 of 5 is a half in float32, too.
        ranks = wanted * x.dtype.type(count - 1)
        found = [_between(ordered, float(rank), interpolation) for rank in ranks]
        if keepdim:
            found = [y.reshape((1,) * rank) if is_flat else y.unsqueeze(place) for y in found]
        return found[0] if as_data(q, x.dtype).ndim == 0 else stack(found)

    def msort(self) -> Tensor:
        """Return the elements in order along the first dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3, 1, 2]).msort().tolist()
        [1, 2, 3]
        """
        return as_tensor(self).sort(0).values


def _at(x: Tensor, place: int, dim: int, keepdim: bool) -> Sorted:
    """Return the element at `place` of the order along `dim`, and where it was."""
    if x.ndim == 0:
        return Sorted(x.clone(), x.new_zeros((), dtype=np.int64))
    ordered = x.sort(dim)
    values, indices = ordered.values.narrow(dim, place, 1), ordered.indices.narrow(dim, place, 1)
    if keepdim:
        return Sorted(values.clone(), indices.clone())
    return Sorted(values.squeeze(dim).clone(), indices.squeeze(dim).clone())


def _between(ordered: Tensor, place: float, interpolation: str) -> Tensor:
    """Return what lies at `place`, whole or not, of the first dimension."""
    low, high = math.floor(place), math.ceil(place)
    weight = 0.0
    # One element alone is read where one alone counts: the other may be infinite.
    match interpolation:
        case "linear":
            weight = place - low
        case "lower":
            high = low
        case "higher":
            low = high
        case "nearest":
            low = high = round(place)
        case "midpoint":
            weight = 0.5
        case _:
            raise InvalidArgumentError(
                "quantile: interpolation is 'linear', 'lower', 'higher', 'nearest' or 'midpoint', not "
                f"{interpolation!r}"
            )
    some = isnan(ordered).any(0)
    return where(some, float("nan"), lerp(ordered[low], ordered[high], weight))
