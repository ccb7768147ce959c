"""Convolutions as matrix products, over patches of the input that are gathered a piece at a time.

Patches of a piece of the batch (or, where one sample has many, of some of its rows) stand side by side as the
columns of a matrix, so that memory for them is bounded whatever the batch. The three functions are each
other's derivatives, so that they are enough for all orders:

- ``convolve(x, weight)`` gives y,
- ``convolve_transposed(y, weight)``, its transpose as a map of x, gives the gradient of x, and is what
  transposed convolutions compute,
- ``convolve_for_weight(x, y)`` gives the gradient of the weight.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensor.memory.buffer import empty, zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensor._dtypes import Array

# Bytes of patches at a time: they stay in the processor's caches between the gathering and the product. But a
# product of few columns spends its time on the weight.
_PIECE_BYTES = 1 << 20
_LEAST_COLUMNS = 256


class Geometry(NamedTuple):
    """How patches lie in the input; of each tuple one entry for each dimension of space.

    Attributes
    ----------
    kernel
        The sizes of a patch, in elements of the kernel.
    stride
        How far patches lie apart.
    padding
        How many zeros are thought before and after the input.
    dilation
        How far the elements of a patch lie apart.
    groups
        Into how many groups channels are divided, each a convolution of its own.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    def spans(self) -> tuple[int, ...]:
        """Return how many elements of the input a patch spans."""
        return tuple([step * (size - 1) + 1 for size, step in zip(self.kernel, self.dilation, strict=True)])

    def padded(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of an input of these `sizes` with its padding."""
        return tuple([size + sum(pad) for size, pad in zip(sizes, self.padding, strict=True)])

    def outputs(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many patches an input of these `sizes` has; below 1 where none fits."""
        return tuple(
            [
                (size - span) // step + 1
                for size, span, step in zip(self.padded(sizes), self.spans(), self.stride, strict=True)
            ]
        )


class _Piece(NamedTuple):
    """Some samples, and some rows of their patches: rows are those along the first dimension of space."""

    samples: slice
    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.samples.stop - self.samples.start, self.rows.stop - self.rows.start


def _pieces(batch: int, outs: tuple[int, ...], nbytes: int) -> Iterator[_Piece]:
    """Yield pieces of all patches, of which there are some, and one takes `nbytes`."""
    patches = max(_PIECE_BYTES // nbytes, _LEAST_COLUMNS)
    rows = min(max(patches // prod(outs[1:]), 1), outs[0])
    samples = min(max(patches // prod(outs), 1), batch) if rows == outs[0] else 1
    for start in range(0, batch, samples):
        for top in range(0, outs[0], rows):
            yield _Piece(slice(start, min(start + samples, batch)), slice(top, min(top + rows, outs[0])))


def _is_pointwise(geometry: Geometry) -> bool:
    return prod(geometry.kernel) == prod(geometry.stride) == 1 and not any(map(any, geometry.padding))


def _inside(whole: Array, geometry: Geometry, sizes: tuple[int, ...]) -> Array:
    """Return a view of what lies in its padding."""
    for axis, ((before, _), size) in enumerate(zip(geometry.padding, sizes, strict=True), start=2):
        whole = whole[(slice(None),) * axis + (slice(before, before + size),)]
    return whole


class _Gathering:
    """The patches of an input, a piece after the other as columns of a matrix for each group."""

    def __init__(self, x: Array, geometry: Geometry, outs: tuple[int, ...]) -> None:
        self._x, self._geometry, self._outs = x, geometry, outs
        self._height = x.shape[1] // geometry.groups * prod(geometry.kernel)
        itemsize = x.dtype.itemsize
        self.pieces = list(_pieces(x.shape[0], outs, x.shape[1] * prod(geometry.kernel) * itemsize))
        first = self.pieces[0].shape[0]  # no other is larger
        largest = prod(self.pieces[0].shape) * prod(outs[1:])
        self._columns = empty((geometry.groups * self._height * largest,), x.dtype)
        self._padded: Array | None = None
        if any(map(any, geometry.padding)):
            self._padded = zeros((first, x.shape[1], *geometry.padded(x.shape[2:])), x.dtype)
        self._filled: slice | None = None

    def columns(self, piece: _Piece) -> Array:
        """Return the patches of a piece, of shape ``(groups, height, samples * patches)``, until the next."""
        geometry, x = self._geometry, self._x
        samples, rows = piece.shape
        whole = x[piece.samples]
        if self._padded is not None:
            whole = self._padded[:samples]
            if self._filled != piece.samples:
                _inside(whole, geometry, x.shape[2:])[...] = x[piece.samples]
                self._filled = piece.samples
        windows = _windows(whole, geometry, piece.rows.start, (rows, *self._outs[1:]))
        size = prod(windows.shape)
        columns = self._columns[:size].reshape(windows.shape)
        np.copyto(columns, windows)
        return columns.reshape(geometry.groups, self._height, -1)


def _windows(whole: Array, geometry: Geometry, top: int, outs: tuple[int, ...]) -> Array:
    """Return a view of patches: ``(groups, channels, *kernel, samples, *outs)``, from row `top` on."""
    samples, channels, *_ = whole.shape
    by_sample, by_channel, *by_place = whole.strides
    within = channels // geometry.groups
    steps = [step * by for step, by in zip(geometry.dilation, by_place, strict=True)]
    jumps = [jump * by for jump, by in zip(geometry.stride, by_place, strict=True)]
    return as_strided(
        whole[:, :, top * geometry.stride[0] :],
        (geometry.groups, within, *geometry.kernel, samples, *outs),
        (by_channel * within, by_channel, *steps, by_sample, *jumps),
    )


def convolve(x: Array, weight: Array, geometry: Geometry, outs: tuple[int, ...]) -> Array:
    """Return the sums over the first `outs` patches: ``(batch, out_channels, *outs)``.

    `x` has shape ``(batch, in_channels, *sizes)`` and `weight` ``(out_channels, in_channels / groups,
    *kernel)``.
    """
    groups = geometry.groups
    batch, channels = x.shape[0], weight.shape[0]
    out = empty((batch, groups, channels // groups, prod(outs)), x.dtype)
    matrix = weight.reshape(groups, channels // groups, prod(weight.shape[1:]))
    if _is_pointwise(geometry):
        np.matmul(matrix, x.reshape(batch, groups, matrix.shape[2], prod(outs)), out=out)
    elif matrix.shape[2] == 0:
        out.fill(0)
    elif out.size:
        gathering, inner = _Gathering(x, geometry, outs), prod(outs[1:])
        for piece in gathering.pieces:
            _store(matrix, gathering.columns(piece), out, piece, inner)
    return out.reshape(batch, channels, *outs)


def _store(matrix: Array, columns: Array, out: Array, piece: _Piece, inner: int) -> None:
    target = out[piece.samples, :, :, piece.rows.start * inner : piece.rows.stop * inner]
    if len(target) == 1:
        np.matmul(matrix, columns, out=target[0])
    else:
        found = np.matmul(matrix, columns).reshape(*matrix.shape[:2], len(target), -1)
        np.copyto(target, found.transpose(2, 0, 1, 3))


def _beside(y: Array, piece: _Piece, inner: int) -> Array:
    """Return a piece of `y`, ``(batch, groups, channels, patches)``, with its samples side by side."""
    part = y[piece.samples, :, :, piece.rows.start * inner : piece.rows.stop * inner]
    if len(part) == 1:
        return part.squeeze(0)
    return part.transpose(1, 2, 0, 3).reshape(*y.shape[1:3], -1)


def convolve_transposed(y: Array, weight: Array, geometry: Geometry, sizes: tuple[int, ...]) -> Array:
    """Return what each element of an input of these `sizes` has a share in: ``(batch, in_channels, *sizes)``.

    `y` has the shape of what ``convolve`` returns for such an input, and `weight` that of its weight.
    """
    groups, outs = geometry.groups, y.shape[2:]
    batch, channels = y.shape[0], weight.shape[1] * groups
    matrix = weight.reshape(groups, weight.shape[0] // groups, prod(weight.shape[1:])).swapaxes(1, 2)
    y = y.reshape(batch, groups, matrix.shape[2], prod(outs))
    if _is_pointwise(geometry):
        found: Array = np.matmul(matrix, y)
        return found.reshape(batch, channels, *sizes)
    out = zeros((batch, channels, *sizes), y.dtype)
    if y.size == 0 or matrix.size == 0:
        return out
    inner, is_padded = prod(outs[1:]), any(map(any, geometry.padding))
    padded, held = out, None
    for piece in _pieces(batch, outs, channels * prod(geometry.kernel) * y.dtype.itemsize):
        samples, rows = piece.shape
        columns = np.matmul(matrix, _beside(y, piece, inner))
        shares = columns.reshape(channels, *geometry.kernel, samples, rows, *outs[1:])
        if not is_padded:
            whole = out[piece.samples]
        elif held == piece.samples:
            whole = padded
        else:
            padded, held = zeros((samples, channels, *geometry.padded(sizes)), y.dtype), piece.samples
            whole = padded
        _scatter(whole, shares, geometry, piece.rows.start)
        if is_padded and piece.rows.stop == outs[0]:
            out[piece.samples] = _inside(whole, geometry, sizes)
    return out


def _scatter(whole: Array, shares: Array, geometry: Geometry, top: int) -> None:
    """Add to each place the shares of all patches that it is in."""
    outs = shares.shape[2 + len(geometry.kernel) :]
    for offset in product(*map(range, geometry.kernel)):
        firsts = [i * step for i, step in zip(offset, geometry.dilation, strict=True)]
        firsts[0] += top * geometry.stride[0]
        places: list[Any] = [
            slice(first, first + jump * (count - 1) + 1, jump)
            for first, jump, count in zip(firsts, geometry.stride, outs, strict=True)
        ]
        share: tuple[Any, ...] = (slice(None), *offset)
        whole[(..., *places)] += shares[share].swapaxes(0, 1)


def convolve_for_weight(x: Array, y: Array, geometry: Geometry) -> Array:
    """Return the sums of products over batch and patches: ``(out_channels, in_channels / groups, *kernel)``.

    `x` and `y` have the shapes of what ``convolve`` takes and returns.
    """
    groups, outs, channels = geometry.groups, y.shape[2:], y.shape[1]
    shape = (channels, x.shape[1] // groups, *geometry.kernel)
    y = y.reshape(x.shape[0], groups, channels // groups, prod(outs))
    out = zeros((groups, channels // groups, prod(shape[1:])), x.dtype)
    if x.size and y.size:
        gathering, inner = _Gathering(x, geometry, outs), prod(outs[1:])
        for piece in gathering.pieces:
            out += np.matmul(_beside(y, piece, inner), gathering.columns(piece).swapaxes(1, 2))
    return out.reshape(shape)


def columns_of_patches(x: Array, geometry: Geometry) -> Array:
    """Return all patches of `x`, ``(batch, channels, *sizes)``, as columns.

    Of shape ``(batch, channels * elements of a kernel, patches)``.
    """
    outs = geometry.outputs(x.shape[2:])
    padded = x
    if any(map(any, geometry.padding)):
        padded = zeros((*x.shape[:2], *geometry.padded(x.shape[2:])), x.dtype)
        _inside(padded, geometry, x.shape[2:])[...] = x
    out = empty((x.shape[0], x.shape[1] * prod(geometry.kernel), prod(outs)), x.dtype)
    if out.size:
        windows = _windows(padded, geometry, 0, outs)[0]
        space = len(outs)
        by_sample = windows.transpose(space + 1, *range(space + 1), *range(space + 2, 2 * space + 2))
        np.copyto(out.reshape(by_sample.shape), by_sample)
    return out


def patches_of_columns(columns: Array, geometry: Geometry, sizes: tuple[int, ...]) -> Array:
    """Return the sums of all columns, as patches of what has these `sizes`: ``(batch, channels, *sizes)``."""
    batch, height = columns.shape[:2]
    channels = height // prod(geometry.kernel)
    out = zeros((batch, channels, *geometry.padded(sizes)), columns.dtype)
    if columns.size:
        shares = columns.reshape(batch, channels, *geometry.kernel, *geometry.outputs(sizes))
        space = len(sizes)
        _scatter(
            out, shares.transpose(*range(1, space + 2), 0, *range(space + 2, 2 * space + 2)), geometry, 0
        )
    return np.ascontiguousarray(_inside(out, geometry, sizes))
