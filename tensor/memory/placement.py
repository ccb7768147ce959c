"""Placement of the arrays of a plan in one block. Arrays that are alive at the same time do not overlap.

The algorithm is from Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural Net Inference"
(2020), greedy by size: largest array first, each in the smallest gap that is free during its lifetime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Life:
    """The lifetime of an array: from event `begin` to event `end`, and in the next iteration until `until`.

    An array may outlive its iteration of a loop. Then the next iteration frees it at event `until`. For other
    arrays `until` is 0.
    """

    nbytes: int
    begin: int
    end: int
    until: int = 0


def most_alive(lives: Sequence[Life], sizes: Sequence[int], events: int) -> int:
    """Return the most bytes alive at the same time, a lower bound for the size of a block with all arrays."""
    change = np.zeros(events + 2, np.int64)
    for life, size in zip(lives, sizes, strict=True):
        change[life.begin] += size
        change[life.end] -= size
        if life.until:
            change[0] += size
            change[life.until] -= size
    return int(np.cumsum(change).max(initial=0))


def place(lives: Sequence[Life], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the offset of each array, and the total size."""
    if not lives:
        return [], 0
    size = np.array(sizes, np.int64)
    length = np.array([life.end - life.begin + life.until for life in lives], np.int64)
    # The order of the paper, and two that are better for networks with many arrays of one size.
    orders = (-size, -size * length, -length)
    found = [_placed(lives, size, np.lexsort((-length, order))) for order in orders]
    return min(found, key=lambda placed: placed[1])


def _placed(lives: Sequence[Life], size: _Integers, order: NDArray[np.intp]) -> tuple[list[int], int]:
    begin = np.array([life.begin for life in lives], np.int64)
    end = np.array([life.end for life in lives], np.int64)
    until = np.array([life.until for life in lives], np.int64)
    offset = np.zeros(len(lives), np.int64)
    placed: list[int] = []
    total = 0
    for i in order:
        others = np.array(placed, np.intp)
        meets = (begin[others] < end[i]) & (begin[i] < end[others])
        meets |= (begin[others] < until[i]) | (begin[i] < until[others])
        meets |= (until[others] > 0) & (until[i] > 0)
        offset[i] = _best_gap(offset[others[meets]], size[others[meets]], int(size[i]))
        total = max(total, int(offset[i] + size[i]))
        placed.append(int(i))
    return [int(at) for at in offset], total


def _best_gap(offsets: _Integers, sizes: _Integers, wanted: int) -> int:
    """Return the start of the smallest gap of at least `wanted` bytes, or the end of the last array."""
    if not len(offsets):
        return 0
    by_offset = np.argsort(offsets, kind="stable")
    offsets, ends = offsets[by_offset], (offsets + sizes)[by_offset]
    reached = np.concatenate(([0], np.maximum.accumulate(ends)))
    gaps: Any = offsets - reached[:-1]
    fitting = np.flatnonzero(gaps >= wanted)
    if not len(fitting):
        return int(reached[-1])
    return int(reached[fitting[np.argmin(gaps[fitting])]])
