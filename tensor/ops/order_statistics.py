"""Order statistics as methods: medians, quantiles, the k-th smallest element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._dtypes import is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.tensor import TensorCore, wrap
from tensor.ops.data import as_data, as_tensor
from tensor.ops.elementwise import ceil, floor, isnan, lerp, multiply, subtract, where
from tensor.ops.elementwise import round as round_even
from tensor.ops.selecting import take_along_axis

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops import results
else:
    results = ModuleOnDemand("tensor.ops.results")


def shared_by_equals(flat: Tensor, found: Tensor) -> Tensor:
    """Return `found`, an element of `flat`, with a gradient that all equal elements share evenly."""
    if not found.requires_grad:
        return found
    value = found.detach()
    others = ~isnan(flat) if isnan(value).item() else flat != value
    return flat.masked_fill(others, -math.inf).amax()


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
