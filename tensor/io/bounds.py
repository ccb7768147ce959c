"""A check that a layout from a file or pickle stays within its memory, before NumPy uses the layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod


def is_within(nbytes: int, itemsize: int, shape: Sequence[int], strides: Sequence[int], offset: int) -> bool:
    """Return whether all elements with `strides`, from byte `offset` on, are within `nbytes` bytes.

    Python integers do not overflow here. The product of the nonzero sizes, in bytes, must fit a machine word,
    even for empty shapes.
    """
    if len(shape) != len(strides) or min(shape, default=0) < 0:
        return False
    if prod([n for n in shape if n]) * itemsize > sys.maxsize:
        return False
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)] if 0 not in shape else []
    first = offset + sum([step for step in steps if step < 0])
    end = offset + sum([step for step in steps if step > 0]) + (0 if 0 in shape else itemsize)
    return first >= 0 and end <= nbytes and max(map(abs, strides), default=0) <= sys.maxsize
