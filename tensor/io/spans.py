"""Which bytes a layout reaches: asked of what files and pickles say, before NumPy sees it."""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_within(nbytes: int, itemsize: int, shape: Sequence[int], strides: Sequence[int], offset: int) -> bool:
    """Tell whether elements of `itemsize` bytes at `strides` from byte `offset` on all lie in `nbytes`.

    In Python's integers, which don't overflow. Sizes of no elements must be countable too.
    """
    if len(shape) != len(strides) or min(shape, default=0) < 0:
        return False
    if prod([n for n in shape if n]) * itemsize > sys.maxsize:
        return False
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)] if 0 not in shape else []
    first = offset + sum([step for step in steps if step < 0])
    end = offset + sum([step for step in steps if step > 0]) + (0 if 0 in shape else itemsize)
    return first >= 0 and end <= nbytes and max(map(abs, strides), default=0) <= sys.maxsize
