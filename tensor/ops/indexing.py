"""Read and write by index: NumPy's basic and advanced indexing, combined as in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array
from tensor.core.tensor import TensorCore, share_of, snapshot
from tensor.memory.buffer import Share, owner_of
from tensor.ops.data import as_data

if TYPE_CHECKING:
    pass

# The types of index parts, and of slice bounds, that NumPy gets unchanged.
_PLAIN = frozenset({int, EllipsisType, type(None)})
_BOUNDS = frozenset({int, type(None)})


class Key(tuple[Any, ...]):
    """An index that several nodes of the graph use. `holds` protects its arrays from writes."""

    holds: tuple[Share, ...]

    @classmethod
    def of(cls, parts: Iterable[Any]) -> Key:
        """Return the key of `parts`. No other code may use their arrays."""
        key = cls(parts)
        key.holds = tuple([_share_under(part) for part in key if isinstance(part, np.ndarray)])
        return key


def _share_under(array: Array) -> Share:
    """Return a share that protects `array` from writes. An array from ``snapshot`` has one."""
    base: object = owner_of(array).base
    return base if isinstance(base, Share) else share_of(array)


def numpy_key(key: object, x: TensorCore, *, copying: bool = False) -> tuple[tuple[Any, ...], bool]:
    """Return the `key` of `x` for NumPy, and whether it selects elements (a copy) instead of a view.

    With `copying`, for a graph, copy the user's arrays. The key is then a `Key` if it has arrays.
    """
    if type(key) is Key:
        return key, True
    given = key if isinstance(key, tuple) else (key,)
    for part in given:
        kind = type(part)
        if kind is slice:
            kind = type(part.start)
            if kind not in _BOUNDS or type(part.stop) not in _BOUNDS or type(part.step) not in _BOUNDS:
                break
        elif kind not in _PLAIN:
            break
    else:
        # With an ellipsis, NumPy returns a 0-d array instead of a scalar.
        ellipses = given.count(...)
        if ellipses == 1:
            return given, False
        return (_with_one_ellipsis(given) if ellipses else (*given, ...)), False
    parts: list[Any] = []
    holds: list[Share] = []
    selects = has_ellipsis = False
    for part in given:
        kind = type(part)
        if kind is int or part is None:
            parts.append(part)
        elif kind is slice:
            parts.append(_plain_slice(part))
        elif part is Ellipsis:
            has_ellipsis = True
            parts.append(part)
        else:
            found = _plain_index(part, copying)
            if not isinstance(found, int):
                selects = True
                if copying:
                    holds.append(_share_under(found))
            parts.append(found)
    if not has_ellipsis:
        if not selects:
            parts.append(Ellipsis)
    else:
        parts = list(_with_one_ellipsis(tuple(parts)))
        if selects and _dims_read_by(parts) == x._live_array().ndim:
            # For NumPy an ellipsis that stands for no dimension separates arrays, for PyTorch it does not.
            parts = [part for part in parts if part is not Ellipsis]
    if not holds:
        return tuple(parts), selects
    shared_key = Key(parts)
    shared_key.holds = tuple(holds)
    return shared_key, selects


def _with_one_ellipsis(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `parts` without the ellipses at their end that follow another one, as PyTorch reads them."""
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    end = len(parts)
    while len(places) > 1 and places[-1] == end - 1:
        end = places.pop()
    return parts[:end]


def _dims_read_by(parts: list[Any]) -> int:
    """Return how many dimensions of a tensor `parts` stand for, without the ellipsis."""
    count = 0
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind == "b":
            count += part.ndim
        elif part is not None and part is not Ellipsis:
            count += 1
    return count


def _is_plain(part: slice) -> bool:
    return type(part.start) in _BOUNDS and type(part.stop) in _BOUNDS and type(part.step) in _BOUNDS


def _plain_slice(part: slice) -> slice:
    if _is_plain(part):
        return part
    try:
        bounds = [None if bound is None else index(bound) for bound in (part.start, part.stop, part.step)]
    except TypeError:
        raise TypeError(f"the bounds of a slice must be integers or None, as x[1:3], not {part}") from None
    return slice(*bounds)


def _plain_index(part: object, copying: bool) -> int | Array:
    if isinstance(part, TensorCore):
        part._raise_if_disposed()
        array = snapshot(part)
    elif isinstance(part, (list, tuple, range)):
        array = as_data(part, None) if len(part) else np.empty(0, np.intp)
    elif isinstance(part, (np.ndarray, np.generic)):
        array = np.array(part) if copying else np.asarray(part)
    elif isinstance(part, bool):
        return np.asarray(part)
    elif hasattr(part, "__index__"):
        return index(part)
    else:
        raise IndexError(
            "an index must be an integer, a slice, None, ..., or a boolean or integer tensor, array or list, "
            f"not {type(part).__name__}"
        )
    if array.dtype.kind not in "biu":
        raise IndexError(
            f"indices must be integers or booleans, not {array.dtype}: convert them with x.long(), or "
            "compare them to get a mask (x > 0)"
        )
    if array.ndim == 0 and array.dtype.kind != "b":
        return int(array)
    return array
