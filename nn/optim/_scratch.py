"""What an update works on: pieces of a parameter, its gradient and its state, and memory for temporaries."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensor import get_num_threads
from tensor.kernels import empty, in_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tensor.lowlevel import Array

# Elements that are worked on at a time, where one temporary is needed; of two each has half of them: at most
# 128 KiB for temporaries. In pieces of 16,384 a step of SGD takes a fifth longer, for each has its calls.
PIECE = 32_768
# NumPy has arrays up to so many elements ready, in a third of the time that views of a temporary take.
SMALL = 8192
# On several threads pieces are longer: between two calls threads wait for each other, for the interpreter.
# Of 10 parameters of 1,000,000 elements, and two threads, Adam takes 0.77 of the time of one in pieces of
# 65,536 elements, 0.66 in these; SGD 0.78 and 0.62.
LONG_PIECE = 131_072
# From how many elements on, of all the parameters that one rule updates, several threads work.
THREADED = 2**20

_REAL: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


class Rule(NamedTuple):
    """How parameters change in one step, all numbers known.

    `update` gets arrays: of a parameter; of its gradient, to be read alone; two temporaries, the second of
    which is None without `two`; and those of the parameter's state.
    """

    update: Callable[..., None]
    two: bool


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
            held[:] = [empty((length,), real(dtype)) for _ in range(threads)]

    def update(self, rule: Rule, rows: list[list[Array]], *, alone: bool) -> None:
        """Follow `rule` for the arrays of each parameter; ``make_room`` comes before.

        ``alone`` leaves all to this thread.
        """
        whole = []
        for arrays in rows:
            if all(a.flags.c_contiguous for a in arrays):
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
        held = self._held[rows[0][0].dtype]
        length, *_ = map(len, held)
        step = length // 2 if two else length
        pieces = [(arrays, start) for arrays in rows for start in range(0, arrays[0].size, step)]

        def run(first: int, last: int) -> None:
            own = held.pop()  # of this thread alone
            for arrays, start in pieces[first:last]:
                p, g, *state = [a[start : start + step] for a in arrays]
                update(p, g, *_temporaries(own, two, p.size), *state)
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
            one, other = _temporaries(held, two, p.size)
            update(p, g, one.reshape(p.shape), None if other is None else other.reshape(p.shape), *state)


def _temporaries(held: Array, two: bool, size: int) -> tuple[Array, Array | None]:
    return (held[:size], held[len(held) // 2 :][:size]) if two else (held[:size], None)


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
