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

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensor.kernels.affine import matrix_product
from tensor.kernels.patches import gather_patches, scatter_patches
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


def _gather(x: Array, columns: Array, geometry: Geometry, top: int, outs: tuple[int, ...]) -> None:
    """Write the patches of `x`, those along the first dimension of space from `top` on, to `columns`."""
    if x.dtype.kind != "c":
        gather_patches(x, columns, geometry, top, outs)
        return
    for part, target in ((x.real, columns.real), (x.imag, columns.imag)):
        found = empty(columns.shape, part.dtype)
        gather_patches(np.ascontiguousarray(part), found, geometry, top, outs)
        target[...] = found


def _scatter(x: Array, columns: Array, geometry: Geometry, top: int, outs: tuple[int, ...]) -> None:
    """Add to each element of `x` the shares of all patches that it is in."""
    if x.dtype.kind != "c":
        scatter_patches(x, columns, geometry, top, outs)
        return
    for part, target in ((columns.real, x.real), (columns.imag, x.imag)):
        found = np.ascontiguousarray(target)
        scatter_patches(found, np.ascontiguousarray(part), geometry, top, outs)
        target[...] = found


def _product(a: Array, b: Array) -> Array:
    """Return the products of stacks of one matrix for each group."""
    if len(a) == 1:
        found: Array = matrix_product(a[0], b[0])
        return found[None]
    products: Array = np.matmul(a, b)
    return products


class _Gathering:
    """The patches of an input, a piece after the other as columns of a matrix for each group."""

    def __init__(self, x: Array, geometry: Geometry, outs: tuple[int, ...]) -> None:
        self._x, self._geometry, self._outs = np.ascontiguousarray(x), geometry, outs
        self._height = x.shape[1] // geometry.groups * prod(geometry.kernel)
        self.pieces = list(_pieces(x.shape[0], outs, x.shape[1] * prod(geometry.kernel) * x.dtype.itemsize))
        largest = prod(self.pieces[0].shape) * prod(outs[1:])  # no other is larger
        self._columns = empty((geometry.groups * self._height * largest,), x.dtype)

    def columns(self, piece: _Piece) -> Array:
        """Return the patches of a piece, of shape ``(groups, height, samples * patches)``, until the next."""
        samples, rows = piece.shape
        patches = samples * rows * prod(self._outs[1:])
        columns = self._columns[: self._geometry.groups * self._height * patches]
        outs = (rows, *self._outs[1:])
        _gather(self._x[piece.samples], columns, self._geometry, piece.rows.start, outs)
        return columns.reshape(self._geometry.groups, self._height, patches)


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
        np.copyto(target[0], _product(matrix, columns))
    else:
        found = _product(matrix, columns).reshape(*matrix.shape[:2], len(target), -1)
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
    inner = prod(outs[1:])
    for piece in _pieces(batch, outs, channels * prod(geometry.kernel) * y.dtype.itemsize):
        columns = _product(matrix, _beside(y, piece, inner))
        _scatter(out[piece.samples], columns, geometry, piece.rows.start, (piece.shape[1], *outs[1:]))
    return out


def convolve_for_weight(x: Array, y: Array, geometry: Geometry) -> Array:
    """Return the sums of products over batch and patches: ``(out_channels, in_channels / groups, *kernel)``.

    `x` and `y` have the shapes of what ``convolve`` takes and returns.
    """
    groups, outs, channels = geometry.groups, y.shape[2:], y.shape[1]
    shape = (channels, x.shape[1] // groups, *geometry.kernel)
    y = y.reshape(x.shape[0], groups, channels // groups, prod(outs))
    # Transposed: products of few columns take two thirds of the time of those of few rows.
    out = zeros((groups, prod(shape[1:]), channels // groups), x.dtype)
    if x.size and y.size:
        gathering, inner = _Gathering(x, geometry, outs), prod(outs[1:])
        for piece in gathering.pieces:
            out += _product(gathering.columns(piece), _beside(y, piece, inner).swapaxes(1, 2))
    return np.ascontiguousarray(out.swapaxes(1, 2)).reshape(shape)


def columns_of_patches(x: Array, geometry: Geometry) -> Array:
    """Return all patches of `x`, ``(batch, channels, *sizes)``, as columns.

    Of shape ``(batch, channels * elements of a kernel, patches)``.
    """
    outs = geometry.outputs(x.shape[2:])
    out = empty((x.shape[0], x.shape[1] * prod(geometry.kernel), prod(outs)), x.dtype)
    for sample, columns in zip(np.ascontiguousarray(x), out, strict=True):
        _gather(sample[None], columns, geometry, 0, outs)
    return out


def patches_of_columns(columns: Array, geometry: Geometry, sizes: tuple[int, ...]) -> Array:
    """Return the sums of all columns, as patches of what has these `sizes`: ``(batch, channels, *sizes)``."""
    batch, height = columns.shape[:2]
    out = zeros((batch, height // prod(geometry.kernel), *sizes), columns.dtype)
    for sample, shares in zip(out, np.ascontiguousarray(columns), strict=True):
        _scatter(sample[None], shares, geometry, 0, geometry.outputs(sizes))
    return out
