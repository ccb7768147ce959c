"""Parameters in pieces, for plain formulas: their temporaries are no larger than a piece."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import EllipsisType

    from tensor.lowlevel import Array

    Key = tuple[int | slice | EllipsisType, ...]

# Elements: temporaries of 128 KiB.
_MOST = 32_768


def in_real_pieces(arrays: list[Array]) -> Iterator[list[Array]]:
    """Yield views of the same part of all `arrays`, one part after the other.

    Real and imaginary parts are numbers of their own, as in PyTorch.
    """
    if arrays[0].dtype.kind == "c":
        yield from in_real_pieces([a.real for a in arrays])
        yield from in_real_pieces([a.imag for a in arrays])
    else:
        for key in keys_of_pieces(arrays[0].shape):
            yield [a[key] for a in arrays]


def keys_of_pieces(shape: tuple[int, ...]) -> Iterator[Key]:
    """Yield what cuts an array of `shape` in parts, whatever its order of memory."""
    row = prod(shape[1:])
    if prod(shape) <= _MOST:
        yield (...,)
    elif row > _MOST:
        for i in range(shape[0]):
            for key in keys_of_pieces(shape[1:]):
                yield (i, *key)
    else:
        rows = _MOST // row
        for start in range(0, shape[0], rows):
            yield (slice(start, start + rows),)
