"""What an update works on: pieces of a parameter, its gradient and its state, and memory for temporaries."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels import empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tensor import Tensor
    from tensor.lowlevel import Array

# Elements that are worked on at a time: with its state and a temporary a piece stays in a core's cache, where
# whole arrays of millions would pass through memory once for each of the ten operations of a step.
PIECE = 16_384
# NumPy has arrays up to so many elements ready, in a third of the time that views of a temporary take.
_SMALL = 8192

_REAL: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


class Scratch:
    """Two temporaries for each dtype, of a piece at most.

    They are held for one step only: backward is where memory peaks, and it has no use for them.
    """

    def __init__(self) -> None:
        self._held: dict[np.dtype[Any], tuple[Array, Array]] = {}

    def clear(self) -> None:
        """Let the memory go."""
        self._held.clear()

    def make_room(self, x: Tensor) -> None:
        """Take the memory that an update of `x` will need."""
        array = x._array
        if array is None:
            x._raise_disposed()
        dtype = array.dtype
        if array.size > _SMALL or dtype.kind == "c":
            dtype = _real(dtype)
            if dtype not in self._held:
                self._held[dtype] = empty((PIECE,), dtype), empty((PIECE,), dtype)

    def pieces(self, x: Tensor, grad: Tensor, *state: Tensor) -> Iterable[tuple[Array, ...]]:
        """Return arrays: of `x`, its gradient (to read), the `state`, and two temporaries, piece by piece.

        ``writable`` of `x` and of the state, and ``make_room(x)``, come before.
        """
        g: Any = grad._array
        arrays: list[Any] = [x._array, g, *[s._array for s in state]]
        shape, dtype = g.shape, g.dtype
        if g.size <= _SMALL and dtype.kind != "c":
            return [(*arrays, np.empty(shape, dtype), np.empty(shape, dtype))]
        return self._cut(arrays)

    def _cut(self, arrays: list[Array]) -> Iterator[tuple[Array, ...]]:
        # Real and imaginary parts are numbers of their own, as in PyTorch.
        if all(a.flags.c_contiguous for a in arrays):
            flat = [a.reshape(-1).view(_real(a.dtype)) for a in arrays]
            one, two = self._held[flat[1].dtype]
            size = flat[1].size
            for start in range(0, size, PIECE):
                end = min(start + PIECE, size)
                yield (*[a[start:end] for a in flat], one[: end - start], two[: end - start])
        elif arrays[1].dtype.kind == "c":
            yield from self._parts([a.real for a in arrays])
            yield from self._parts([a.imag for a in arrays])
        else:
            yield from self._parts(arrays)

    def _parts(self, arrays: list[Array]) -> Iterator[tuple[Array, ...]]:
        for key in _keys(arrays[0].shape):
            parts = [a[key] for a in arrays]
            size, shape = parts[1].size, parts[1].shape
            yield (*parts, *[t[:size].reshape(shape) for t in self._held[parts[1].dtype]])


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return _REAL.get(dtype, dtype)


def _keys(shape: tuple[int, ...]) -> Iterator[tuple[int | slice, ...]]:
    """Yield what cuts an array of `shape` in parts of at most a piece, whatever its order of memory."""
    row = prod(shape[1:])
    if row > PIECE:
        for i in range(shape[0]):
            for key in _keys(shape[1:]):
                yield (i, *key)
    else:
        rows = PIECE // row
        for start in range(0, shape[0], rows):
            yield (slice(start, start + rows),)
