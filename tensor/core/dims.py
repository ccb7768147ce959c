"""Checks of dimensions and sizes. Negative dimensions count from the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import SupportsIndex

import numpy as np

from tensor._errors import InvalidArgumentError, shown

Sizes = int | tuple[int, ...] | list[int]
# The dimensions of a reduction; None for all.
Axis = int | tuple[int, ...] | None


def dim_of(op: str, dim: int, ndim: int) -> int:
    """Return `dim` counted from the front. Raise an IndexError if it is out of range."""
    if type(dim) is int and -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    try:
        place = index(dim)
    except TypeError:
        raise TypeError(f"{op}: a dimension must be an integer, not {type(dim).__name__}") from None
    if not -ndim <= place < ndim:
        if ndim == 0:
            raise IndexError(f"{op}: dimension {dim} is out of range: the tensor has no dimensions")
        raise IndexError(f"{op}: dimension {dim} is out of range: it must be from {-ndim} to {ndim - 1}")
    return place % ndim


def dims_of(op: str, dims: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return each of `dims` counted from the front. Raise a ValueError if one occurs twice."""
    if isinstance(dims, int):
        return (dim_of(op, dims, ndim),)
    places = tuple([dim_of(op, dim, ndim) for dim in dims])
    if len(set(places)) != len(places):
        raise InvalidArgumentError(f"{op}: {dims} contains a dimension twice")
    return places


def sizes_of(op: str, sizes: Sequence[object]) -> tuple[int, ...]:
    """Return the sizes that a caller passes as ``f(2, 3)`` or ``f((2, 3))``."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    for n in sizes:
        if type(n) is not int:
            break
    else:
        return tuple(sizes)  # type: ignore[arg-type]  # all are integers
    # Check the type first: isinstance(n, SupportsIndex) costs 1.5 us for each size.
    return tuple([n if type(n) is int else _size(op, sizes, n) for n in sizes])


def named_sizes(op: str, sizes: tuple[object, ...], size: object) -> tuple[object, ...]:
    """Return the arguments of ``f(2, 3)`` or ``f((2, 3))``, or those of ``f(size=(2, 3))``."""
    if size is None:
        return sizes
    if sizes:
        raise TypeError(f"{op} takes its sizes once: write x.{op}(2, 3), or one keyword")
    return tuple(size) if isinstance(size, (tuple, list)) else (size,)


def _size(op: str, sizes: Sequence[object], n: object) -> int:
    if isinstance(n, SupportsIndex):
        return index(n)
    if isinstance(n, np.dtype):
        raise TypeError(
            f"a shape consists of sizes, not of the dtype {n}. To reinterpret the bytes as that dtype, write "
            "tensor.from_numpy(x.numpy().view(dtype)); to convert the values, x.to(dtype)"
        )
    raise TypeError(f"{op} takes integers, not {shown(tuple(sizes))}: write {op}(2, 3) or {op}((2, 3))")


def infer_sizes(op: str, sizes: tuple[int, ...], count: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `sizes` with -1 replaced by the size that fits the `count` elements of `shape`."""
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    if len(unknown) > 1 or any(n < -1 for n in sizes):
        raise InvalidArgumentError(
            f"{op}: sizes must be at least 0, and one of them may be -1 (to be computed), not {sizes}"
        )
    known = prod(n for n in sizes if n != -1)
    if unknown:
        if known == 0 or count % known:
            raise InvalidArgumentError(
                f"{op}: shape {shape} has {count} elements, which {sizes} can't hold with any size for -1: "
                f"the product of the other sizes is {known}"
            )
        return tuple(count // known if n == -1 else n for n in sizes)
    if known != count:
        raise InvalidArgumentError(
            f"{op}: shape {shape} has {count} elements and {sizes} would have {known}: give sizes with "
            "the same product, or -1 for one of them"
        )
    return sizes


# A cached result takes 100 ns instead of 1,000. Pass only plain integers: the cache would keep other objects
# alive, and the value of a tensor may change.
@lru_cache(512)
def order_of(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return `axes` counted from the front, or None if some are missing."""
    order = dims_of("permute", axes, ndim)
    return order if len(order) == ndim else None


@lru_cache(512)
def exchange(ndim: int, first: int, second: int) -> tuple[int, ...]:
    """Return the order of dimensions with `first` and `second` swapped."""
    order = list(range(ndim))
    order[first], order[second] = second, first
    return tuple(order)


@lru_cache(512)
def expanded(
    shape: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return `sizes` with the size of `shape` for each -1, and the strides of an array broadcast to them."""
    added = len(sizes) - len(shape)
    if -1 in sizes[: max(added, 0)]:
        raise InvalidArgumentError(
            f"expand: {sizes} adds dimension {sizes.index(-1)} to shape {shape}, so -1 has no size to keep: "
            "write the size"
        )
    whole = tuple([shape[i - added] if n == -1 else n for i, n in enumerate(sizes)])
    fits = added >= 0 and all(n in (1, size) for n, size in zip(shape, whole[added:], strict=True))
    if not fits or min(whole, default=0) < 0:
        raise InvalidArgumentError(
            f"shape {shape} does not broadcast to {whole}: from the last dimension backward, each of its "
            "sizes must be equal or 1, and it can't have more dimensions"
        )
    kept = zip(shape, whole[added:], strides, strict=True)
    return whole, (*[0] * added, *[step if n == size else 0 for n, size, step in kept])
