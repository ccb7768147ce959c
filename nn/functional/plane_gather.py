"""Gather and scatter-add within planes: the derivatives of max pooling and of each other.

A plane is the last `space` dimensions of a tensor. The indices `places` are those of the flattened plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from nn.functional.checks import is_wanted
from nn.functional.windows import Windows
from tensor import Tensor
from tensor._dtypes import Array
from tensor.core.tensor import wrap
from tensor.kernels import add_at_places, as_one_dtype, largest_of_windows, run_kernel, take_places
from tensor.ops.dispatch import apply
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules.table import define


def _planes(x: Array, space: int) -> Array:
    """Return `x` as ``(planes, depth, height, width)``."""
    sizes = (*(1,) * (3 - space), *x.shape[x.ndim - space :])
    return x.reshape(prod(x.shape[: x.ndim - space]), *sizes)


def _add(g: Array, places: Array, to_shape: tuple[int, ...], space: int) -> Array:
    (wide,) = as_one_dtype(g)
    sizes = (*(1,) * (3 - space), *to_shape[len(to_shape) - space :])
    found = add_at_places(_planes(wide, space), _planes(places, space), sizes)
    return found.reshape(to_shape).astype(g.dtype, copy=False)


def _take(g: Array, places: Array, space: int) -> Array:
    (wide,) = as_one_dtype(g)
    found = take_places(_planes(wide, space), _planes(places, space))
    return found.reshape(places.shape).astype(g.dtype, copy=False)


def scatter_add(xp: Any, g: Any, places: Any, to_shape: tuple[int, ...], space: int) -> Any:
    """Return zeros of `to_shape`, with the values of `g` added at `places`, plane by plane."""
    if not xp.is_recorded:
        return _add(g, places, to_shape, space)
    return apply(_ADD, lambda x: _add(x, places, to_shape, space), (g,), places=places, space=space)


def gather(xp: Any, g: Any, places: Any, space: int) -> Any:
    """Return the values of `g` at `places`, plane by plane."""
    if not xp.is_recorded:
        return _take(g, places, space)
    return apply(_TAKE, lambda x: _take(x, places, space), (g,), places=places, space=space)


LARGEST = define("max_pool", input=scatter_add)
_ADD = define("add_at_places", input=gather)
_TAKE = define("take_places", input=scatter_add)
UNPOOL = define("max_unpool", input=gather)


def largest(space: int, input: Tensor, x: Array, windows: Sequence[Windows], return_indices: bool) -> Any:
    """Return the largest element of each window, with `return_indices` also the index of each."""
    with_places = return_indices or is_wanted(input)
    one = Windows(np.zeros(1, np.int64), np.ones(1, np.int64), 1)

    def kernel(x: Array) -> tuple[Array, Array | None]:
        (wide,) = as_one_dtype(x)
        found, places = largest_of_windows(
            _planes(wide, space), [*[one] * (3 - space), *windows], with_places
        )
        shape = (*x.shape[: x.ndim - space], *found.shape[4 - space :])
        return (
            found.reshape(shape).astype(x.dtype, copy=False),
            None if places is None else places.reshape(shape),
        )

    out, places = run_kernel(kernel, x)
    return recorded_largest(space, input, out, places, return_indices)


def recorded_largest(
    space: int, input: Tensor, out: Array, places: Array | None, return_indices: bool
) -> Any:
    """Return `out`, the elements of `input` at `places`, as a tensor; with `return_indices` also `places`."""
    if places is None or not return_indices:
        return wrap_recorded(out, record(LARGEST, (input,), out, {"places": places, "space": space}))
    assert places is not None
    indices = wrap(places)
    # Save the tensor instead of its array, so that writes of the caller do not change the saved values.
    pooled = wrap_recorded(out, record(LARGEST, (input,), out, {"places": indices, "space": space}))
    return pooled, indices
