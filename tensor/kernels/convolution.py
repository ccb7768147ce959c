"""Convolutions, transposed convolutions and their gradients, and patches as columns of a matrix.

Convolutions are direct (``direct_convolution.h``): they copy a piece of the input with its padding, and sum
products over the copy. So memory is bounded for any batch size. These three functions are derivatives of each
other, so they are sufficient for derivatives of all orders:

- ``convolve(x, weight)`` returns y.
- ``convolve_transposed(y, weight)``, the transpose of this linear map of x, returns the gradient of x. It is
  also the transposed convolution.
- ``convolve_for_weight(x, y)`` returns the gradient of the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensor.kernels.geometry import Geometry
from tensor.kernels.networks import (
    PackedWeight,
    PaddedInput,
    gather_patches,
    scatter_patches,
    weight_channels,
)
from tensor.kernels.products import matrix_product
from tensor.memory.buffer import empty, zeros

if TYPE_CHECKING:
    from tensor._dtypes import Array

# A "place" is one position of the kernel, for one element of the output. A piece of places takes about
# _PIECE_BYTES, so that it stays in the cache, but at least _LEAST_PLACES: with fewer, reading the weight
# takes most of the time.
_PIECE_BYTES = 1 << 21
_LEAST_PLACES = 256
# Half of the largest signed 64-bit integer.
_MAX_BYTES = 1 << 62


class _Piece(NamedTuple):
    """Some samples, and some rows of places along the first spatial dimension."""

    samples: slice
    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.samples.stop - self.samples.start, self.rows.stop - self.rows.start


def _pieces(batch: int, outs: tuple[int, ...], nbytes: int) -> Iterator[_Piece]:
    """Yield the pieces for all places. A place takes `nbytes`."""
    places = max(_PIECE_BYTES // max(nbytes, 1), _LEAST_PLACES)
    rows = min(max(places // prod(outs[1:]), 1), outs[0])
    samples = min(max(places // prod(outs), 1), batch) if rows == outs[0] else 1
    for start in range(0, batch, samples):
        for top in range(0, outs[0], rows):
            yield _Piece(slice(start, min(start + samples, batch)), slice(top, min(top + rows, outs[0])))


def _is_pointwise(geometry: Geometry) -> bool:
    return prod(geometry.kernel) == prod(geometry.stride) == 1 and not any(map(any, geometry.padding))


def _bilinear(function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """Apply the bilinear `function`, defined for real arrays, to arrays that may be complex."""
    if a.dtype.kind != "c":
        return function(np.ascontiguousarray(a), np.ascontiguousarray(b))
    (a_real, a_imag), (b_real, b_imag) = [
        (np.ascontiguousarray(x.real), np.ascontiguousarray(x.imag)) for x in (a, b)
    ]
    real = function(a_real, b_real)
    real -= function(a_imag, b_imag)
    found = empty(real.shape, a.dtype)
    found.real = real
    found.imag = function(a_real, b_imag)
    found.imag += function(a_imag, b_real)
    return found


def _copied(
    x: Array, geometry: Geometry, outs: tuple[int, ...], more_bytes: int = 0
) -> Iterator[PaddedInput]:
    """Yield padded copies of the input of a convolution, one piece after another.

    The caller needs `more_bytes` of other memory for each place.
    """
    # The approximate number of copied elements for each channel and place.
    elements = prod(map(min, geometry.stride, geometry.spans()))
    copy = None
    for piece in _pieces(x.shape[0], outs, x.shape[1] * elements * x.dtype.itemsize + more_bytes):
        samples, rows = piece.shape
        if copy is None:  # the first piece is the largest
            _require_countable(x, geometry, (rows, *outs[1:]), samples)
            copy = PaddedInput(x, geometry, outs, samples, rows)
        copy.fill(piece.samples.start, samples, piece.rows.start, rows)
        yield copy


def _require_countable(x: Array, geometry: Geometry, outs: tuple[int, ...], samples: int) -> None:
    """Raise ValueError if the copy of a piece has more bytes than compiled code can count."""
    sizes = [
        (out + (span - 1) // step) * min(step, span)
        for out, step, span in zip(outs, geometry.stride, geometry.spans(), strict=True)
    ]
    nbytes = samples * x.shape[1] * prod(sizes) * x.dtype.itemsize
    if nbytes > _MAX_BYTES:
        raise ValueError(f"the input with its padding has too many elements: {nbytes} bytes at a time")


def _with_bias(out: Array, bias: Array | None) -> Array:
    """Add the bias of each channel to the new array `out`, and return it."""
    if bias is not None:
        out += bias.reshape(-1, *[1] * (out.ndim - 2))
    return out


def _is_tiny(geometry: Geometry, batch: int, outs: tuple[int, ...]) -> bool:
    """Return whether the places of one sample do not fill a register, but those of all samples do."""
    return prod(outs) <= 20 and batch >= 16 and geometry.stride[-1] == 1


def _samples_last(
    function: Callable[..., Array],
    x: Array,
    weight: Array,
    geometry: Geometry,
    outs: tuple[int, ...],
    bias: Array | None,
    channels: int,
) -> Array:
    """Apply `function` to tiny samples by interleaving many of them into one sample.

    The result is a convolution too. Along the last dimension, its padding and dilation are multiplied by the
    number of samples.
    """
    out = empty((len(x), channels, *outs), x.dtype)
    before, behind = geometry.padding[-1]
    # Interleave the samples of four pieces, because each call packs the weight again.
    at_once = max(4 * _PIECE_BYTES * len(x) // max(x.nbytes, 1), 16)
    for start in range(0, len(x), at_once):
        some = x[start : start + at_once]
        count = len(some)
        beside = np.ascontiguousarray(np.moveaxis(some, 0, -1)).reshape(
            1, *x.shape[1:-1], x.shape[-1] * count
        )
        wide = geometry._replace(
            padding=(*geometry.padding[:-1], (before * count, behind * count)),
            dilation=(*geometry.dilation[:-1], geometry.dilation[-1] * count),
        )
        found = function(beside, weight, wide, (*outs[:-1], outs[-1] * count), bias)
        out[start : start + count] = np.moveaxis(found.reshape(channels, *outs, count), -1, 0)
    return out


def convolve(
    x: Array, weight: Array, geometry: Geometry, outs: tuple[int, ...], bias: Array | None = None
) -> Array:
    """Return the convolution at the first `outs` places: ``(batch, out_channels, *outs)``.

    `x` has shape ``(batch, in_channels, *sizes)`` and `weight` ``(out_channels, in_channels / groups,
    *kernel)``. `bias` has one value for each channel.
    """
    if _is_pointwise(geometry) and x.shape[2:] == outs and x.size and weight.size:
        groups, batch, channels = geometry.groups, x.shape[0], weight.shape[0]
        matrix = weight.reshape(groups, channels // groups, weight.shape[1])
        out: Array = np.matmul(matrix, x.reshape(batch, groups, weight.shape[1], prod(outs)))
        return _with_bias(out.reshape(batch, channels, *outs), bias)
    if x.dtype.kind == "c":
        return _with_bias(
            _bilinear(lambda x, weight: _convolve(x, weight, geometry, outs, None), x, weight), bias
        )
    return _convolve(np.ascontiguousarray(x), np.ascontiguousarray(weight), geometry, outs, bias)


def _convolve(
    x: Array, weight: Array, geometry: Geometry, outs: tuple[int, ...], bias: Array | None
) -> Array:
    if _is_tiny(geometry, len(x), outs):
        return _samples_last(_convolve, x, weight, geometry, outs, bias, weight.shape[0])
    out = empty((x.shape[0], weight.shape[0], *outs), x.dtype)
    if weight.size == 0:
        out.fill(0)
        return _with_bias(out, bias)
    if out.size:
        packed = PackedWeight(weight, geometry.groups)
        if bias is not None:
            bias = np.ascontiguousarray(bias, x.dtype)
        for piece in _copied(x, geometry, outs):
            piece.add_up(packed, bias, out)
    return out


def convolve_transposed(
    y: Array, weight: Array, geometry: Geometry, sizes: tuple[int, ...], bias: Array | None = None
) -> Array:
    """Return the transposed convolution, for an input of these `sizes`: ``(batch, in_channels, *sizes)``.

    `y` has the shape of the result of ``convolve``, and `weight` that of its weight. `bias` has one value for
    each channel.
    """
    # With output padding, `sizes` are larger than those of `y`.
    if _is_pointwise(geometry) and y.shape[2:] == sizes and y.size and weight.size:
        groups, batch, channels = geometry.groups, y.shape[0], weight.shape[1] * geometry.groups
        matrix = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1]).swapaxes(1, 2)
        out: Array = np.matmul(matrix, y.reshape(batch, groups, matrix.shape[2], prod(sizes)))
        return _with_bias(out.reshape(batch, channels, *sizes), bias)
    if y.dtype.kind == "c":
        return _with_bias(
            _bilinear(lambda y, weight: _transposed(y, weight, geometry, sizes, None), y, weight), bias
        )
    return _transposed(np.ascontiguousarray(y), np.ascontiguousarray(weight), geometry, sizes, bias)


def _transposed(
    y: Array, weight: Array, geometry: Geometry, sizes: tuple[int, ...], bias: Array | None
) -> Array:
    # With a stride, or if more than a third of a padded `y` is zeros, many products would be with zeros.
    if set(geometry.stride) != {1} or prod(sizes) * 2 > prod(y.shape[2:]) * 3:
        return _scattered(y, weight, geometry, sizes, bias)
    # A convolution with the flipped weight.
    groups, axes = geometry.groups, range(3, weight.ndim + 1)
    rows, channels = weight.shape[0] // groups, weight.shape[1]
    turned = np.flip(weight.reshape(groups, rows, *weight.shape[1:]).swapaxes(1, 2), tuple(axes))
    padding = tuple(
        [(span - 1 - before, 0) for span, (before, _) in zip(geometry.spans(), geometry.padding, strict=True)]
    )
    weight = np.ascontiguousarray(turned).reshape(groups * channels, rows, *geometry.kernel)
    return _convolve(y, weight, geometry._replace(padding=padding), sizes, bias)


def _scattered(
    y: Array, weight: Array, geometry: Geometry, sizes: tuple[int, ...], bias: Array | None
) -> Array:
    """Return the result of ``_transposed``: compute all products, then scatter-add them."""
    groups, outs, batch = geometry.groups, y.shape[2:], y.shape[0]
    matrix = weight.reshape(groups, weight.shape[0] // groups, prod(weight.shape[1:])).swapaxes(1, 2)
    y = y.reshape(batch, groups, matrix.shape[2], prod(outs))
    out = zeros((batch, weight.shape[1] * groups, *sizes), y.dtype)
    if y.size == 0 or matrix.size == 0:
        return _with_bias(out, bias)
    inner = prod(outs[1:])
    for piece in _pieces(batch, outs, groups * matrix.shape[1] * y.dtype.itemsize):
        part = y[piece.samples, :, :, piece.rows.start * inner : piece.rows.stop * inner]
        beside = part.transpose(1, 2, 0, 3).reshape(*y.shape[1:3], -1)
        columns: Array = matrix_product(matrix[0], beside[0]) if groups == 1 else np.matmul(matrix, beside)
        _scatter(out[piece.samples], columns, geometry, piece.rows.start, (piece.shape[1], *outs[1:]))
    return _with_bias(out, bias)


def convolve_for_weight(x: Array, y: Array, geometry: Geometry) -> Array:
    """Return the gradient of the weight: ``(out_channels, in_channels / groups, *kernel)``.

    It is the sum of products over batch and patches. `x` and `y` have the shapes of the input and result of
    ``convolve``.
    """
    return _bilinear(lambda x, y: _for_weight(x, y, geometry), x, y)


def _for_weight(x: Array, y: Array, geometry: Geometry) -> Array:
    groups, outs, rows = geometry.groups, y.shape[2:], y.shape[1] // geometry.groups
    shape = (y.shape[1], x.shape[1] // groups, *geometry.kernel)
    if x.size == 0 or y.size == 0:
        return zeros(shape, x.dtype)
    columns = weight_channels(rows, x.dtype.itemsize)
    out = zeros((groups, prod(shape[1:]), columns), x.dtype)
    for piece in _copied(x, geometry, outs, groups * columns * x.dtype.itemsize):
        piece.add_weights(y, out)
    return np.ascontiguousarray(out[:, :, :rows].swapaxes(1, 2)).reshape(shape)


def _gather(x: Array, columns: Array, geometry: Geometry, top: int, outs: tuple[int, ...]) -> None:
    """Write the patches of `x`, from number `top` on along the first spatial dimension, to `columns`."""
    if x.dtype.kind != "c":
        gather_patches(x, columns, geometry, top, outs)
        return
    for part, target in ((x.real, columns.real), (x.imag, columns.imag)):
        found = empty(columns.shape, part.dtype)
        gather_patches(np.ascontiguousarray(part), found, geometry, top, outs)
        target[...] = found


def _scatter(x: Array, columns: Array, geometry: Geometry, top: int, outs: tuple[int, ...]) -> None:
    """Add the columns of all patches to the elements of `x` that they were read from."""
    if x.dtype.kind != "c":
        scatter_patches(x, columns, geometry, top, outs)
        return
    for part, target in ((columns.real, x.real), (columns.imag, x.imag)):
        found = np.ascontiguousarray(target)
        scatter_patches(found, np.ascontiguousarray(part), geometry, top, outs)
        target[...] = found


def columns_of_patches(x: Array, geometry: Geometry) -> Array:
    """Return all patches of `x`, ``(batch, channels, *sizes)``, as columns.

    The shape is ``(batch, channels * elements of a kernel, patches)``.
    """
    outs = geometry.outputs(x.shape[2:])
    out = empty((x.shape[0], x.shape[1] * prod(geometry.kernel), prod(outs)), x.dtype)
    for sample, columns in zip(np.ascontiguousarray(x), out, strict=True):
        _gather(sample[None], columns, geometry, 0, outs)
    return out


def patches_of_columns(columns: Array, geometry: Geometry, sizes: tuple[int, ...]) -> Array:
    """Return the sum of all columns as patches in an array of ``(batch, channels, *sizes)``."""
    batch, height = columns.shape[:2]
    out = zeros((batch, height // prod(geometry.kernel), *sizes), columns.dtype)
    for sample, shares in zip(out, np.ascontiguousarray(columns), strict=True):
        _scatter(sample[None], shares, geometry, 0, geometry.outputs(sizes))
    return out
