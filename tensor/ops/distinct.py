"""Unique values, and membership of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.tensor import wrap
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor
from tensor.ops.sorting import keys_of

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class UniqueAll(NamedTuple):
    """The unique values, their first indices, the inverse indices, and their counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The unique values and their counts."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The unique values and the inverse indices."""

    values: Tensor
    inverse_indices: Tensor


def isin(x1: Tensor | complex, x2: Tensor | complex, /, *, invert: bool = False) -> Tensor:
    """Return for each element of `x1` whether it is in `x2`; with `invert`, whether it is not.

    Examples
    --------
    >>> import tensor
    >>> tensor.isin(tensor.tensor([1, 2, 3]), tensor.tensor([3, 1])).tolist()
    [True, False, True]
    """
    return wrap(np.asarray(run_kernel(np.isin, keys_of(x1), keys_of(x2), invert=invert)))


def unique_values(x: Tensor, /) -> Tensor:
    """Return the sorted unique elements of `x`, in one dimension.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_values(tensor.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    return unique_all(x).values


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the sorted unique elements of `x`, and their counts.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_counts(tensor.tensor([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the sorted unique elements of `x`, and for each element its index among them.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_inverse(tensor.tensor([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the sorted unique elements of `x`, their first indices, the inverse indices, and the counts.

    Each nan is a separate element.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_all(tensor.tensor([3, 1, 3])).indices.tolist()
    [1, 0]
    """
    array, dtype = keys_of(x), as_tensor(x).dtype
    found = run_kernel(np.unique, array, True, True, True, equal_nan=False)
    values, indices, inverse, counts = found
    return UniqueAll(
        wrap(values.astype(dtype, copy=False)),
        wrap(indices),
        wrap(inverse.reshape(array.shape)),
        wrap(counts),
    )


def unique_parts(x: Tensor, dim: int) -> UniqueAll:
    """Return the result of ``unique_all`` for the slices of `x` along `dim`.

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.distinct import unique_parts
    >>> unique_parts(tensor.tensor([[1, 2], [0, 3], [1, 2]]), 0).values.tolist()
    [[0, 3], [1, 2]]
    """
    array, dtype = keys_of(x), x.dtype
    place = dim_of("unique", dim, array.ndim)
    if array.size == 0 and array.shape[place] > 0:
        raise InvalidArgumentError(
            f"unique: the slices along dimension {dim} of shape {array.shape} have no elements"
        )
    found = run_kernel(np.unique, array, True, True, True, place, equal_nan=False)
    values, indices, inverse, counts = [np.array(part) for part in found]
    return UniqueAll(
        wrap(values.astype(dtype, copy=False)), wrap(indices), wrap(inverse.reshape(-1)), wrap(counts)
    )
