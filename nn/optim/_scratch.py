"""What an update works on: pieces of a parameter, its gradient and its state, and memory for temporaries."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels import empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tensor import Tensor
    from tensor.lowlevel import Array

# Elements that are worked on at a time, where one temporary is needed; of two each has half of them: at most
# 128 KiB for temporaries. In pieces of 16,384 a step of SGD takes a fifth longer, for each has its calls.
PIECE = 32_768
# NumPy has arrays up to so many elements ready, in a third of the time that views of a temporary take.
_SMALL = 8192

_REAL: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


def new_number(value: float, dtype: np.dtype[Any]) -> Array:
    """Return `value` as an array for ufuncs to read: 0.5 us sooner than a float, of 0.9 for a small array."""
    return np.array(value, _real(dtype))


@lru_cache(maxsize=64)
def number(value: float, dtype: np.dtype[Any]) -> Array:
    """Return what ``new_number`` does, kept: for what stays from step to step."""
    return new_number(value, dtype)


class Scratch:
    """Memory for temporaries, a piece for each dtype.

    It is held for one step only: backward is where memory peaks, and has no use for it.
    """

    def __init__(self) -> None:
        self._held: dict[np.dtype[Any], Array] = {}

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
                self._held[dtype] = empty((PIECE,), dtype)

    def pieces(self, x: Tensor, grad: Tensor, *state: Tensor, two: bool) -> Iterable[tuple[Any, ...]]:
        """Return arrays: of `x`, its gradient (to read), the `state`, and two temporaries, piece by piece.

        Without `two` there is None for the second one. ``writable`` of `x` and of the state, and
        ``make_room(x)``, come before.
        """
        g: Any = grad._array
        arrays: list[Any] = [x._array, g, *[s._array for s in state]]
        shape, dtype, size = g.shape, g.dtype, g.size
        if dtype.kind != "c":
            if size <= _SMALL:
                return ((*arrays, np.empty(shape, dtype), np.empty(shape, dtype) if two else None),)
            one, other, most = self._temporaries(dtype, two)
            if size <= most:  # as it is: a slice and a shape for each array took 4 us more
                second = None if other is None else other[:size].reshape(shape)
                return ((*arrays, one[:size].reshape(shape), second),)
        return self._cut(arrays, two)

    def _temporaries(self, dtype: np.dtype[Any], two: bool) -> tuple[Array, Array | None, int]:
        """Return both, and how many elements each has."""
        held = self._held[dtype]
        half = PIECE // 2
        return (held[:half], held[half:], half) if two else (held, None, PIECE)

    def _cut(self, arrays: list[Array], two: bool) -> Iterator[tuple[Any, ...]]:
        # Real and imaginary parts are numbers of their own, as in PyTorch.
        if all(a.flags.c_contiguous for a in arrays):
            flat = [a.reshape(-1).view(_real(a.dtype)) for a in arrays]
            size = flat[1].size
            one, other, step = self._temporaries(flat[1].dtype, two)
            for start in range(0, size, step):
                end = start + step
                if end > size:
                    one, other = one[: size - start], None if other is None else other[: size - start]
                yield (*[a[start:end] for a in flat], one, other)
        elif arrays[1].dtype.kind == "c":
            yield from self._parts([a.real for a in arrays], two)
            yield from self._parts([a.imag for a in arrays], two)
        else:
            yield from self._parts(arrays, two)

    def _parts(self, arrays: list[Array], two: bool) -> Iterator[tuple[Any, ...]]:
        one, other, step = self._temporaries(arrays[1].dtype, two)
        for key in _keys(arrays[0].shape, step):
            parts = [a[key] for a in arrays]
            size, shape = parts[1].size, parts[1].shape
            second = None if other is None else other[:size].reshape(shape)
            yield (*parts, one[:size].reshape(shape), second)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return _REAL.get(dtype, dtype)


def _keys(shape: tuple[int, ...], most: int) -> Iterator[tuple[int | slice, ...]]:
    """Yield what cuts an array of `shape` in parts of `most` elements, whatever its order of memory."""
    row = prod(shape[1:])
    if row > most:
        for i in range(shape[0]):
            for key in _keys(shape[1:], most):
                yield (i, *key)
    else:
        rows = most // row
        for start in range(0, shape[0], rows):
            yield (slice(start, start + rows),)
