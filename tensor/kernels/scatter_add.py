"""Scatter-add: add values at the positions of an index."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tensor._dtypes import Array
from tensor.memory.allocator import zeros

# The number of elements to add at a time. It is limited, because NumPy copies 36 bytes for each element.
_AT_A_TIME = 2048


def scatter_add(values: Array, key: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """Return zeros of `shape` with `values` added at `key`, which may contain an index twice."""
    whole = zeros(shape, values.dtype)
    if not any(part.dtype.kind != "b" for part in key if hasattr(part, "dtype")):
        whole[key] = values
    elif len(key) == 1:
        _add_rows(whole, np.asarray(key[0], np.int64).reshape(-1), values)
    else:
        np.add.at(whole, key, values)
    return whole


def _add_rows(whole: Array, rows: Array, values: Array) -> None:
    """Add whole rows, as for an embedding, at flat indices: a fifth of the time of ``np.add.at`` for rows."""
    width = prod(whole.shape[1:])
    if not width:
        return
    flat, parts = whole.reshape(-1), values.reshape(-1, width)
    starts, along = rows % whole.shape[0] * width, np.arange(width)
    step = max(_AT_A_TIME // width, 1)
    for i in range(0, rows.size, step):
        places = starts[i : i + step, None] + along
        np.add.at(flat, places.reshape(-1), parts[i : i + step].reshape(-1))
