"""Random integers, permutations, normal numbers and choices, from NumPy's generators."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, SupportsIndex, overload

import numpy as np

from tensor._dtypes import (
    Array,
    Dtype,
    DtypeLike,
    as_dtype,
    float32,
    int64,
    is_bfloat16,
    is_floating,
    is_inexact,
    result_dtype,
)
from tensor.core.promotion import widen
from tensor.core.tensor import TensorCore, wrap
from tensor.creation.from_data import shape_of
from tensor.creation.generators import Generator, numbers_of
from tensor.creation.random import integer_array, normal_array, uniform_array
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor

if TYPE_CHECKING:
    from tensor._tensor import Tensor

Shape = tuple[int, ...] | list[int]


@overload
def randint(
    high: int, size: Shape, /, *, generator: Generator | None = None, dtype: DtypeLike | None = None
) -> Tensor: ...
@overload
def randint(
    low: int, high: int, size: Shape, *, generator: Generator | None = None, dtype: DtypeLike | None = None
) -> Tensor: ...
def randint(
    low: int,
    high: int | Shape,
    size: Shape | None = None,
    *,
    generator: Generator | None = None,
    dtype: DtypeLike | None = None,
) -> Tensor:
    """Return uniform random integers from `low` (by default 0) to `high` (excluded).

    Examples
    --------
    >>> import tensor
    >>> tensor.randint(0, 10, (4,)).shape, tensor.randint(1, (2,)).tolist()
    ((4,), [0, 0])
    """
    if size is None:
        low, high, size = 0, low, high  # type: ignore[assignment]  # randint(high, size)
    if not isinstance(high, (int, np.integer)) or not isinstance(size, (tuple, list)):
        raise TypeError(
            "randint takes low, high and a shape: write randint(0, 10, (4,)) or randint(10, (4,))"
        )
    wanted = int64 if dtype is None else as_dtype(dtype)
    return wrap(integer_array("randint", low, high, shape_of(size), wanted, generator))


def randperm(n: int, *, generator: Generator | None = None, dtype: DtypeLike | None = None) -> Tensor:
    """Return the integers from 0 to `n` (excluded) in random order.

    Examples
    --------
    >>> import tensor
    >>> sorted(tensor.randperm(3).tolist())
    [0, 1, 2]
    """
    if not isinstance(n, SupportsIndex):
        raise TypeError(f"randperm takes an integer, not {type(n).__name__}")
    if index(n) < 0:
        raise ValueError(f"randperm: n must be at least 0, not {n}")
    wanted = int64 if dtype is None else as_dtype(dtype)
    drawn = run_kernel(_permutation, numbers_of(generator), index(n), wanted)
    return wrap(drawn)


def _permutation(numbers: np.random.Generator, n: int, dtype: Dtype) -> Array:
    return numbers.permutation(n).astype(dtype, copy=False)


def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Shape | None = None,
    *,
    generator: Generator | None = None,
    dtype: DtypeLike | None = None,
) -> Tensor:
    """Return normal numbers with the given mean and standard deviation, which may be tensors.

    Examples
    --------
    >>> import tensor
    >>> tensor.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    >>> tensor.normal(tensor.tensor([0.0, 9.0]), 0.0).tolist()
    [0.0, 9.0]
    """
    parts = [x for x in (mean, std) if isinstance(x, TensorCore)]
    means, stds = _array_of(mean), _array_of(std)
    if (stds < 0).any():
        raise ValueError("normal: all standard deviations must be at least 0")
    sizes = np.broadcast_shapes(means.shape, stds.shape) if size is None else shape_of(size)
    if size is None and not parts:
        raise TypeError("normal of two numbers needs a shape: write normal(0.0, 1.0, (2, 3))")
    wanted = (
        as_dtype(dtype)
        if dtype is not None
        else result_dtype([_floating_of(_array_of(x).dtype) for x in parts] or [float32])
    )
    drawn = normal_array(tuple(sizes), float32 if is_bfloat16(wanted) else wanted, generator)
    values = run_kernel(lambda: np.asarray(drawn * widen(stds) + widen(means)).astype(wanted, copy=False))
    return wrap(values)


def _floating_of(dtype: Dtype) -> Dtype:
    return dtype if is_inexact(dtype) else float32


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Return 1 or 0 for each element of `input`, the probability of 1. The dtype is that of `input`.

    Examples
    --------
    >>> import tensor
    >>> tensor.bernoulli(tensor.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    chances = _array_of(as_tensor(input))
    if not is_floating(chances.dtype):
        raise TypeError(
            f"bernoulli takes floating probabilities, not {chances.dtype}: convert them with x.float()"
        )
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("bernoulli: probabilities must be from 0 to 1")
    drawn = uniform_array(chances.shape, chances.dtype, generator)
    values = run_kernel(lambda: np.asarray(drawn < chances).astype(chances.dtype))
    return wrap(values)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Return the indices of `num_samples` draws from each row, in proportion to the weights in `input`.

    Parameters
    ----------
    input
        Weights of at least 0, with shape ``(indices,)`` or ``(rows, indices)``. They need not sum to 1.
    replacement
        Whether an index can be drawn again.

    Examples
    --------
    >>> import tensor
    >>> tensor.multinomial(tensor.tensor([0.0, 3.0, 0.0]), 2, replacement=True).tolist()
    [1, 1]
    """
    given = _array_of(as_tensor(input))
    if not is_floating(given.dtype):
        raise TypeError(f"multinomial takes floating weights, not {given.dtype}: convert them with x.float()")
    weights = given.astype(np.float64)
    if weights.ndim not in (1, 2) or weights.shape[-1] == 0:
        raise ValueError(f"multinomial takes weights in one or two dimensions, not shape {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(-1) > 0).all()):
        raise ValueError("multinomial: weights must be finite, at least 0, and not all 0 in a row")
    if num_samples < 1 or (not replacement and num_samples > (weights > 0).sum(-1).min()):
        raise ValueError(
            f"multinomial: can't draw {num_samples} indices without replacement from "
            f"{int((weights > 0).sum(-1).min())} with a weight above 0: pass replacement=True, or draw fewer"
        )
    rows = weights.reshape(-1, weights.shape[-1])
    places = run_kernel(_indices, numbers_of(generator), rows, num_samples, replacement)
    found = places.reshape(*weights.shape[:-1], num_samples)
    return wrap(found)


def _indices(numbers: np.random.Generator, rows: Array, count: int, replacement: bool) -> Array:
    """Return `count` indices for each of `rows`, in new memory."""
    if replacement:
        ends = np.cumsum(rows, -1)
        drawn = numbers.random((len(rows), count)) * ends[:, -1:]
        found = [np.searchsorted(end, value, "right") for end, value in zip(ends, drawn, strict=True)]
        return np.stack(found).astype(np.int64, copy=False)
    # To draw without replacement, draw an exponential number for each index, with its weight as the rate, and
    # take the smallest (Efraimidis and Spirakis 2006, https://doi.org/10.1016/j.ipl.2005.11.003).
    times = numbers.standard_exponential(rows.shape) / rows
    return np.argsort(times, -1)[:, :count].astype(np.int64)


def _array_of(x: object) -> Array:
    if isinstance(x, TensorCore):
        array = x._array
        if array is None:
            x._raise_disposed()
        return array
    return np.asarray(x)
