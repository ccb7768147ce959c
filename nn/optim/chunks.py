"""Split parameters into chunks, so that temporaries of an optimizer's formula are no larger than a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from types import EllipsisType

from tensor._dtypes import Array

Key = tuple[int | slice | EllipsisType, ...]

# The most elements of a chunk: 128 KiB of float32.
_MOST = 32_768


def real_chunks(arrays: list[Array]) -> Iterator[list[Array]]:
    """Yield a list for each chunk: the view of this chunk in each of `arrays`.

    Real and imaginary parts are in separate chunks, as in PyTorch.
    """
    if arrays[0].dtype.kind == "c":
        yield from real_chunks([a.real for a in arrays])
        yield from real_chunks([a.imag for a in arrays])
    else:
        for key in chunk_keys(arrays[0].shape):
            yield [a[key] for a in arrays]


def chunk_keys(shape: tuple[int, ...]) -> Iterator[Key]:
    """Yield the indices of the chunks of an array of `shape`, for any memory layout."""
    row = prod(shape[1:])
    if prod(shape) <= _MOST:
        yield (...,)
    elif row > _MOST:
        for i in range(shape[0]):
            for key in chunk_keys(shape[1:]):
                yield (i, *key)
    else:
        rows = _MOST // row
        for start in range(0, shape[0], rows):
            yield (slice(start, start + rows),)
