"""What an update works on: pieces of a parameter, its gradient and its state, and memory for temporaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.kernels import empty
from tensor.lowlevel import writable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from tensor import Tensor
    from tensor.lowlevel import Array

# Elements that are worked on at a time: with its state and a temporary a piece stays in a core's cache, where
# whole arrays of millions would pass through memory once for each of the ten operations of a step.
PIECE = 16_384


class Scratch:
    """Temporaries of an optimizer, which it keeps from step to step."""

    def __init__(self) -> None:
        self._held: dict[tuple[tuple[int, ...], np.dtype[Any]], tuple[Array, Array]] = {}

    def clear(self) -> None:
        """Let the memory go."""
        self._held.clear()

    def pieces(self, x: Tensor, grad: Tensor, *state: Tensor) -> Iterator[tuple[Array, ...]]:
        """Yield arrays: of `x`, its gradient (to read), the `state`, and two temporaries."""
        g = grad._array
        if g is None:
            return
        arrays = [writable(x), g, *(writable(s) for s in state)]
        size = g.size
        if size <= PIECE and g.dtype.kind != "c":
            yield (*arrays, *self._temporaries(g.shape, g.dtype))
            return
        if not all(a.flags.c_contiguous for a in arrays):
            yield (*arrays, empty(g.shape, g.dtype), empty(g.shape, g.dtype))
            return
        flat = [a.reshape(-1) for a in arrays]
        if g.dtype.kind == "c":
            # Real and imaginary parts are numbers of their own, as in PyTorch.
            flat = [a.view(a.real.dtype) if a.dtype.kind == "c" else a for a in flat]
            size *= 2
        scratch = self._temporaries((min(size, PIECE),), flat[1].dtype)
        for start in range(0, size, PIECE):
            end = min(start + PIECE, size)
            yield (*[a[start:end] for a in flat], *[t[: end - start] for t in scratch])

    def _temporaries(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
        scratch = self._held.get((shape, dtype))
        if scratch is None:
            scratch = self._held[shape, dtype] = (empty(shape, dtype), empty(shape, dtype))
        return scratch
