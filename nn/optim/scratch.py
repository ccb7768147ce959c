"""What an update works on: pieces of a parameter, its gradient and its state, and memory for temporaries."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor import get_num_threads
from tensor.kernels import in_pieces, run_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensor.lowlevel import Array

# How parameters change in one step, all numbers known: a function, and whether it needs two temporaries. It
# gets arrays: of a parameter; of its gradient, to be read alone; two temporaries, or one and None; and those
# of the parameter's state.
Rule = tuple[Callable[..., None], bool]

# Elements that are worked on at a time, where one temporary is needed; of two each has half of them: at most
# 128 KiB for temporaries. In pieces of 16,384 a step of SGD takes a fifth longer, for each has its calls.
PIECE = 32_768
# NumPy has arrays up to so many elements ready, in a third of the time that views of a temporary take.
SMALL = 8192
# On several threads pieces are longer: between two calls threads wait for each other, for the interpreter.
# For 10 parameters of 1,000,000 elements two threads take 0.53 of the time of one with SGD, 0.58 with Adam;
# in pieces of 65,536 elements 0.61 and 0.63.
LONG_PIECE = 262_144
# From how many elements on, of all the parameters that one rule updates, several threads work. In a training
# step BLAS threads that wait for their next product take their cores: with 5,800,000 elements nothing is
# gained there, and from 500,000 on a step would take 1.03 of the time.
THREADED = 2**20

_REAL: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


def new_number(value: float, dtype: np.dtype[Any]) -> Array:
    """Return `value` as an array for ufuncs to read: 0.5 us sooner than a float, of 0.9 for a small array."""
    return np.array(value, real(dtype))


@lru_cache(maxsize=64)
def number(value: float, dtype: np.dtype[Any]) -> Array:
    """Return what ``new_number`` does, kept: for what stays from step to step."""
    return new_number(value, dtype)


def real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of numbers of `dtype`."""
    return _REAL.get(dtype, dtype)


class Scratch:
    """Memory for temporaries, of each dtype: a piece, or a long one for each thread.

    It is held for one step only: backward is where memory peaks, and has no use for it.
    """

    def __init__(self) -> None:
        self._held: dict[np.dtype[Any], list[Array]] = {}

    def clear(self) -> None:
        """Let the memory go."""
        self._held.clear()

    def make_room(self, dtype: np.dtype[Any], size: int) -> None:
        """Take the memory that updates of `size` elements need, those of parameters above `SMALL`."""
        threads = get_num_threads() if size >= THREADED else 1
        held = self._held.setdefault(real(dtype), [])
        if len(held) < threads or not held:
            length = PIECE if threads == 1 else LONG_PIECE
            held[:] = [run_kernel(np.empty, length, real(dtype)) for _ in range(threads)]

    def update(self, rule: Rule, rows: list[list[Array]], *, alone: bool) -> None:
        """Follow `rule` for the arrays of each parameter; ``make_room`` comes before.

        ``alone`` leaves all to this thread.
        """
        update, two = rule
        most = PIECE // 2 if two else PIECE
        whole = []
        for arrays in rows:
            p, g, *state = arrays
            if p.size <= most and p.dtype.kind != "c":  # as it is: a cut takes 4 us more
                update(p, g, *_temporaries(self._held[p.dtype][0], two, p), *state)
            elif all(a.flags.c_contiguous for a in arrays):
                # Real and imaginary parts are numbers of their own, as in PyTorch.
                whole.append([a.reshape(-1).view(real(a.dtype)) for a in arrays])
            elif arrays[0].dtype.kind == "c":
                self._update_parts(rule, [a.real for a in arrays])
                self._update_parts(rule, [a.imag for a in arrays])
            else:
                self._update_parts(rule, arrays)
        if whole:
            self._update_whole(rule, whole, alone)

    def _update_whole(self, rule: Rule, rows: list[list[Array]], alone: bool) -> None:
        update, two = rule
        dtype = rows[0][0].dtype
        held = self._held[dtype]
        length = len(held[0])
        step = length // 2 if two else length
        pieces = [(arrays, start) for arrays in rows for start in range(0, arrays[0].size, step)]

        def run(first: int, last: int) -> None:
            # Of this thread alone. There is none when meanwhile somebody asked for more threads.
            own = held.pop() if held else np.empty(length, dtype)
            t = more = None
            for arrays, start in pieces[first:last]:
                p, g, *state = [a[start : start + step] for a in arrays]
                if t is None or t.size != p.size:
                    t, more = _temporaries(own, two, p)
                update(p, g, t, more, *state)
            held.append(own)

        if alone or len(held) == 1 or sum(arrays[0].size for arrays in rows) < THREADED:
            run(0, len(pieces))
        else:
            in_pieces(run, len(pieces), 1)

    def _update_parts(self, rule: Rule, arrays: list[Array]) -> None:
        update, two = rule
        held = self._held[arrays[0].dtype][0]
        for key in _keys(arrays[0].shape, len(held) // (2 if two else 1)):
            p, g, *state = [a[key] for a in arrays]
            update(p, g, *_temporaries(held, two, p), *state)


def _temporaries(held: Array, two: bool, p: Array) -> tuple[Array, Array | None]:
    size, shape = p.size, p.shape
    return held[:size].reshape(shape), held[-size:].reshape(shape) if two else None


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
