"""Distinct values, and which values are among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.tensor import wrap
from tensor.kernels.context import run_kernel
from tensor.ops.sorting import array_of

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class UniqueAll(NamedTuple):
    """Distinct values; where each is first; which of them each element is; how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values, and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def isin(x1: Tensor | complex, x2: Tensor | complex, /, *, invert: bool = False) -> Tensor:
    """Return where elements of `x1` are among those of `x2`; with `invert`, where they are not.

    Examples
    --------
    >>> import tensor
    >>> tensor.isin(tensor.tensor([1, 2, 3]), tensor.tensor([3, 1])).tolist()
    [True, False, True]
    """
    return wrap(np.asarray(run_kernel(np.isin, array_of(x1), array_of(x2), invert=invert)))


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements of `x`, in order, in one dimension.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_values(tensor.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    return unique_all(x).values


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct elements of `x`, in order, and how often each occurs.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_counts(tensor.tensor([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct elements of `x`, in order, and for each element its place among them.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_inverse(tensor.tensor([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct elements of `x`, in order, with their first places, counts and inverse.

    Each NaN counts as distinct.

    Examples
    --------
    >>> import tensor
    >>> tensor.unique_all(tensor.tensor([3, 1, 3])).indices.tolist()
    [1, 0]
    """
    array = array_of(x)
    found = run_kernel(np.unique, array, True, True, True, equal_nan=False)
    values, indices, inverse, counts = found
    return UniqueAll(wrap(values), wrap(indices), wrap(inverse.reshape(array.shape)), wrap(counts))


def unique_parts(x: Tensor, dim: int) -> UniqueAll:
    """Return what ``unique_all`` does, of the parts of `x` along `dim`.

    Examples
    --------
    >>> import tensor
    >>> from tensor.ops.distinct import unique_parts
    >>> unique_parts(tensor.tensor([[1, 2], [0, 3], [1, 2]]), 0).values.tolist()
    [[0, 3], [1, 2]]
    """
    array = array_of(x)
    place = dim_of("unique", dim, array.ndim)
    if array.size == 0 and array.shape[place] > 0:
        raise InvalidArgumentError(
            f"unique: the parts along dimension {dim} of shape {array.shape} are empty"
        )
    found = run_kernel(np.unique, array, True, True, True, place, equal_nan=False)
    values, indices, inverse, counts = [np.array(part) for part in found]
    return UniqueAll(wrap(values), wrap(indices), wrap(inverse.reshape(-1)), wrap(counts))
