"""Order statistics as methods: medians, quantiles, the k-th smallest element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._dtypes import is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore, wrap
from tensor.ops.data import as_data, as_tensor
from tensor.ops.elementwise import ceil, floor, isnan, lerp, multiply, subtract, where
from tensor.ops.elementwise import round as round_even
from tensor.ops.selecting import take_along_axis

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops import results
    from tensor.ops.results import Sorted
else:
    results = ModuleOnDemand("tensor.ops.results")


class OrderStatistics(TensorCore):
    """Order statistics. Gradients go to the selected elements."""

    __slots__ = ()

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
            return shared_by_equals(flat, flat.median(0).values)
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
        return quantiles("quantile", as_tensor(self), q, dim, keepdim, interpolation)

    def msort(self) -> Tensor:
        """Return the elements sorted along the first dimension.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3, 1, 2]).msort().tolist()
        [1, 2, 3]
        """
        return as_tensor(self).sort(0).values


def shared_by_equals(flat: Tensor, found: Tensor) -> Tensor:
    """Return `found`, an element of `flat`, with a gradient that all equal elements share evenly."""
    if not found.requires_grad:
        return found
    value = found.detach()
    others = ~isnan(flat) if isnan(value).item() else flat != value
    return flat.masked_fill(others, -math.inf).amax()


def _at(x: Tensor, place: int, dim: int, keepdim: bool) -> Sorted:
    """Return the element at `place` of the sorted order along `dim`, and its index."""
    if x.ndim == 0:
        return results.Sorted(x.clone(), x.new_zeros((), dtype=np.int64))
    ordered = x.sort(dim)
    values, indices = ordered.values.narrow(dim, place, 1), ordered.indices.narrow(dim, place, 1)
    if keepdim:
        return results.Sorted(values.clone(), indices.clone())
    return results.Sorted(values.squeeze(dim).clone(), indices.squeeze(dim).clone())


def quantiles(
    name: str,
    x: Tensor,
    q: float | Sequence[float] | Tensor,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
) -> Tensor:
    """Return the quantiles for the methods ``quantile`` and ``nanquantile``, which ignores nan."""
    if not is_floating(x.dtype):
        raise TypeError(f"{name} takes floating tensors, not {x.dtype}: convert it with x.float()")
    if interpolation not in _INTERPOLATIONS:
        raise InvalidArgumentError(
            f"{name}: interpolation must be 'linear', 'lower', 'higher', 'nearest' or 'midpoint', not "
            f"{interpolation!r}"
        )
    wanted = q if isinstance(q, TensorCore) else wrap(as_data(q, x.dtype).copy())
    values = wanted._live_array()
    if values.dtype != x.dtype:
        raise TypeError(
            f"{name}: q must have the tensor's dtype {x.dtype}, not {values.dtype}: write q.to(x.dtype)"
        )
    if values.ndim > 1 or values.size == 0 or not ((values >= 0) & (values <= 1)).all():
        raise InvalidArgumentError(f"{name}: q must be a number from 0 to 1, or a vector of them")
    rank = x.ndim
    is_flat = dim is None or rank == 0
    place = 0 if dim is None else dim_of(name, dim, max(rank, 1))
    ordered = (x.reshape(-1) if is_flat else x.movedim(place, -1)).sort(-1).values
    count = ordered.shape[-1]
    if count == 0:
        raise InvalidArgumentError(f"{name}: an empty tensor has no quantiles")
    ranks = _ranks(ordered, as_tensor(wanted).reshape(-1), skips_nan=name == "nanquantile")
    if interpolation in ("lower", "higher", "nearest"):
        rounded = {"lower": floor, "higher": ceil, "nearest": round_even}[interpolation]
        ranks = rounded(ranks)
    below = floor(ranks)
    found = take_along_axis(ordered, below.to(np.int64), axis=-1)
    if interpolation in ("linear", "midpoint"):
        weights = subtract(ranks, below.detach()) if interpolation == "linear" else 0.5
        found = lerp(found, take_along_axis(ordered, ceil(ranks).to(np.int64), axis=-1), weights)
    found = found.movedim(-1, 0)
    if keepdim:
        found = found.reshape((-1, *[1] * rank)) if is_flat else found.unsqueeze(place + 1)
    return found.squeeze(0) if values.ndim == 0 else found


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _ranks(ordered: Tensor, wanted: Tensor, *, skips_nan: bool) -> Tensor:
    """Return the positions of the quantiles in each sorted row; the last position if the row has a nan.

    With `skips_nan`, return their positions among the elements that are not nan.
    """
    unknown = isnan(ordered)
    last = ordered.shape[-1] - 1
    # Compute in the precision of the tensor, as PyTorch does.
    if skips_nan:
        known = unknown.logical_not().sum(-1, True) - 1
        return multiply(known.clamp(min=0).to(ordered.dtype), wanted)
    ranks = multiply(wanted, float(last)).broadcast_to((*ordered.shape[:-1], wanted.shape[0]))
    some = unknown.any(-1, True)
    # nan sorts last, and the quantile of a row with a nan is nan.
    return where(some, float(last), ranks)
