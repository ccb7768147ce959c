"""Bags of embeddings: sums, means and maxima of rows of a weight. Sums and means need no copies of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, floating_array_of
from nn.functional.linear_maps import require_in_range, require_indices, row_of, shrink_rows
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.kernels import AxisMatrix, multiply_axes
from tensor.ops.dispatch import apply
from tensor.tape.rules.table import define

# --- out[bag] = sum of share[i] * weight[row[i]] over the entries i of the bag ------------------------------


def _matrix_of(rows: Array, starts: Array, shares: Any, size: int) -> AxisMatrix:
    return AxisMatrix(starts, rows, shares, size)


def _bags(starts: Array) -> Array:
    """Return the index of the bag of each entry."""
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))


def _by_weight(
    xp: Any, g: Any, rows: Any, starts: Any, shares: Any, uses: Any, to_shape: tuple[int, int]
) -> Any:
    if uses is not None:
        shares = shares / uses
    if xp.is_recorded:
        column = xp.expand_dims(xp.asarray(shares, dtype=g.dtype), axis=1)
        return xp.scatter_add(g[_bags(starts)] * column, (rows,), to_shape)
    return multiply_axes(g, [(0, _matrix_of(rows, starts, shares, to_shape[0]).transposed)])


def _by_share(xp: Any, g: Any, weight: Any, rows: Any, starts: Any) -> Any:
    return xp.sum(g[_bags(starts)] * weight[rows], axis=1)


_RULE = define("embedding_bag", weight=_by_weight, shares=_by_share)


def _largest(weight: Tensor, w: Array, rows: Array, starts: Array) -> Tensor:
    """Return the largest element of each column of each bag, 0 for an empty bag. `rows` must not be empty."""
    bags, width = starts.size - 1, w.shape[1]
    chosen = np.zeros((bags, width), np.int64)
    filled = np.flatnonzero(np.diff(starts))
    values, entries = w[rows], np.arange(rows.size)[:, None]
    most = np.maximum.reduceat(values, starts[filled], axis=0)
    of_entry = np.repeat(np.arange(filled.size), np.diff(starts)[filled])
    # Use the first of several equal elements. Treat nan as equal, though nan != nan.
    first = np.where((values == most[of_entry]) | np.isnan(values), entries, rows.size - 1)
    chosen[filled] = rows[np.minimum.reduceat(first, starts[filled], axis=0)]
    found = weight[chosen, np.arange(width)]
    if filled.size < bags:
        found = found.masked_fill(tn.asarray(np.diff(starts) == 0).unsqueeze(1), 0)
    return found


# --- Public functions ---------------------------------------------------------------------------------------


def _starts(name: str, indices: Array, offsets: Tensor | None, include_last_offset: bool) -> Array:
    """Return the index of the first entry of each bag, and the end of the last bag."""
    if indices.ndim == 2:
        if offsets is not None:
            raise InvalidArgumentError(
                f"{name}: each row of an input with two dimensions is a bag: omit offsets"
            )
        starts: Array = np.arange(indices.shape[0] + 1, dtype=np.int64) * indices.shape[1]
        return starts
    if indices.ndim != 1:
        raise InvalidArgumentError(
            f"{name}: input must have one or two dimensions, not shape {indices.shape}"
        )
    if offsets is None:
        raise InvalidArgumentError(
            f"{name}: an input with one dimension requires offsets, the index of the first entry of each bag"
        )
    given = array_of(name, "offsets", offsets)
    require_indices(name, "offsets", given)
    if given.ndim != 1:
        raise InvalidArgumentError(f"{name}: offsets must have one dimension, not shape {given.shape}")
    starts = given.astype(np.int64)
    if not include_last_offset:
        starts = np.append(starts, indices.size)
    elif not starts.size:
        raise InvalidArgumentError(
            f"{name}: with include_last_offset, offsets must have at least one element"
        )
    if (starts[0] != 0 and starts.size > 1) or (np.diff(starts) < 0).any() or starts[-1] > indices.size:
        raise InvalidArgumentError(
            f"{name}: offsets must start with 0, must not decrease, and must be at most {indices.size}, the "
            f"number of entries, not {shown(given.tolist())}"
        )
    return starts


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, the mean or the maxima of the rows of `weight` in each bag.

    Sums and means are computed without copies of the rows.

    Parameters
    ----------
    input
        Integers from 0 to the number of rows minus 1: ``(bags, entries)``, or all entries in one dimension.
    weight
        Shape ``(num_embeddings, embedding_dim)``.
    offsets
        For `input` of one dimension: the index of the first entry of each bag.
    max_norm, norm_type
        First scale the used rows of `weight` down to `max_norm`, in place, if their norm of degree
        `norm_type` is larger.
    scale_grad_by_freq
        Divide the gradient of each row by the number of its uses.
    mode
        ``"sum"``, ``"mean"`` or ``"max"``. The result of an empty bag is 0.
    sparse
        Accepted for compatibility with PyTorch. Gradients are dense.
    per_sample_weights
        The weight of each entry, in the shape of `input`; only for ``"sum"``.
    include_last_offset
        Whether the last element of `offsets` is the end of the last bag.
    padding_idx
        The index of a row to ignore in all bags. A negative index counts from the end.

    Returns
    -------
    Shape ``(bags, embedding_dim)``.

    Raises
    ------
    IndexError
        If an index is out of range.
    ValueError
        If shapes or options do not fit.
    NotImplementedError
        If `per_sample_weights` is given and `mode` is not ``"sum"``.

    Examples
    --------
    >>> import nn, tensor
    >>> rows = tensor.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> entries, offsets = tensor.tensor([0, 1, 2, 2]), tensor.tensor([0, 2])
    >>> nn.functional.embedding_bag(entries, rows, offsets).tolist()
    [[1.0, 2.0], [4.0, 5.0]]
    """
    name = "embedding_bag"
    indices, w = array_of(name, "input", input), floating_array_of(name, "weight", weight)
    require_indices(name, "input", indices)
    if w.ndim != 2:
        raise InvalidArgumentError(
            f"{name}: weight must have shape (num_embeddings, embedding_dim), not {w.shape}"
        )
    if mode not in ("sum", "mean", "max"):
        raise InvalidArgumentError(f"{name}: mode must be 'sum', 'mean' or 'max', not {shown(mode)}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise InvalidArgumentError(f"{name}: mode 'max' supports neither scale_grad_by_freq nor sparse")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"{name}: per_sample_weights requires mode 'sum', not {mode!r}")
    starts = _starts(name, indices, offsets, include_last_offset)
    require_in_range(name, indices, w.shape[0])
    if max_norm is not None:
        w = shrink_rows(weight, indices, max_norm, norm_type)
    rows = indices.reshape(-1)[: starts[-1]].astype(np.int64)
    shares: Any = np.ones(rows.size, w.dtype)
    if per_sample_weights is not None:
        given = floating_array_of(name, "per_sample_weights", per_sample_weights)
        if given.shape != indices.shape:
            raise InvalidArgumentError(
                f"{name}: per_sample_weights must have the shape of input, {indices.shape}, not {given.shape}"
            )
        shares = per_sample_weights.reshape(-1)[: rows.size]
    if padding_idx is not None:
        kept = np.flatnonzero(rows != row_of(padding_idx, w.shape[0]))
        starts = np.searchsorted(kept, starts)
        rows, shares = rows[kept], shares[kept]
    if mode == "max" and rows.size:
        return _largest(weight, w, rows, starts)
    if mode == "mean":
        shares = np.repeat(1 / np.maximum(np.diff(starts), 1), np.diff(starts)).astype(w.dtype)
    uses = np.bincount(rows, minlength=w.shape[0])[rows] if scale_grad_by_freq else None

    def kernel(w: Array, shares: Array) -> Array:
        return multiply_axes(w, [(0, _matrix_of(rows, starts, shares, w.shape[0]))])

    return apply(_RULE, kernel, (weight, shares), rows=rows, starts=starts, uses=uses)
