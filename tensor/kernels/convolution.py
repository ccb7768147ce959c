"""Convolutions, their transposes and their gradients, and patches as columns of a matrix.

Convolutions are direct (``direct_convolution.h``): a piece of the input is copied with its padding, and sums
of products are taken of the copy, so that memory is bounded whatever the batch. The three functions are each
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
from tensor.kernels.direct_convolution import PackedWeight, PaddedInput, weight_channels
from tensor.kernels.patches import gather_patches, scatter_patches
from tensor.memory.buffer import empty, zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tensor._dtypes import Array

# Bytes of a piece, and least places of the kernel in it: a piece stays in the processor's caches while it is
# worked on, but of a few places most of the time goes to the weight.
_PIECE_BYTES = 1 << 21
_LEAST_PLACES = 256
# Half of what a signed integer of 64 bits counts to.
_MOST_BYTES = 1 << 62


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
    """Some samples, and some rows of the places of the kernel: those along the first dimension of space."""

    samples: slice
    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.samples.stop - self.samples.start, self.rows.stop - self.rows.start


def _pieces(batch: int, outs: tuple[int, ...], nbytes: int) -> Iterator[_Piece]:
    """Yield pieces of all places, of which there are some, and one takes `nbytes`."""
    places = max(_PIECE_BYTES // max(nbytes, 1), _LEAST_PLACES)
    rows = min(max(places // prod(outs[1:]), 1), outs[0])
    samples = min(max(places // prod(outs), 1), batch) if rows == outs[0] else 1
    for start in range(0, batch, samples):
        for top in range(0, outs[0], rows):
            yield _Piece(slice(start, min(start + samples, batch)), slice(top, min(top + rows, outs[0])))


def _is_pointwise(geometry: Geometry) -> bool:
    return prod(geometry.kernel) == prod(geometry.stride) == 1 and not any(map(any, geometry.padding))


def _bilinear(function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """Return what `function`, which is bilinear, gives for arrays that may be complex, from real ones."""
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
    """Yield the input of a convolution, copied with its padding, a piece after the other.

    For each place there will be `more_bytes` of other memory.
    """
    # About as many as there are of each channel for each place.
    elements = prod(map(min, geometry.stride, geometry.spans()))
    copy = None
    for piece in _pieces(x.shape[0], outs, x.shape[1] * elements * x.dtype.itemsize + more_bytes):
        samples, rows = piece.shape
        if copy is None:  # no other piece is larger
            _require_countable(x, geometry, (rows, *outs[1:]), samples)
            copy = PaddedInput(x, geometry, outs, samples, rows)
        copy.fill(piece.samples.start, samples, piece.rows.start, rows)
        yield copy


def _require_countable(x: Array, geometry: Geometry, outs: tuple[int, ...], samples: int) -> None:
    """Raise ValueError where the copy of a piece would have more bytes than compiled code can count."""
    sizes = [
        (out + (span - 1) // step) * min(step, span)
        for out, step, span in zip(outs, geometry.stride, geometry.spans(), strict=True)
    ]
    nbytes = samples * x.shape[1] * prod(sizes) * x.dtype.itemsize
    if nbytes > _MOST_BYTES:
        raise ValueError(f"the input with its padding has too many elements: {nbytes} bytes at a time")


def _with_bias(out: Array, bias: Array | None) -> Array:
    """Return `out`, which is new, with a bias for each channel."""
    if bias is not None:
        out += bias.reshape(-1, *[1] * (out.ndim - 2))
    return out


def _is_tiny(geometry: Geometry, batch: int, outs: tuple[int, ...]) -> bool:
    """Tell whether the places of one sample are too few to fill registers, but those of all samples do."""
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
    """Return what `function` does of tiny samples, from one sample with many of them side by side.

    That is a convolution too: along the last dimension elements of a sample lie as far apart as there are
    samples.
    """
    out = empty((len(x), channels, *outs), x.dtype)
    before, behind = geometry.padding[-1]
    # Four chunks at a time, since each call lays the weight out again.
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
    """Return the sums over the first `outs` patches: ``(batch, out_channels, *outs)``.

    `x` has shape ``(batch, in_channels, *sizes)`` and `weight` ``(out_channels, in_channels / groups,
    *kernel)``. `bias` is one for each channel.
    """
    if _is_pointwise(geometry) and x.size and weight.size:
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
    """Return what each element of an input of these `sizes` has a share in: ``(batch, in_channels, *sizes)``.

    `y` has the shape of what ``convolve`` returns for such an input, and `weight` that of its weight. `bias`
    is one for each channel.
    """
    if _is_pointwise(geometry) and y.size and weight.size:
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
    # Where patches lie apart, or much of a padded `y` would be padding, most products would be by zeros.
    if set(geometry.stride) != {1} or prod(sizes) * 2 > prod(y.shape[2:]) * 3:
        return _scattered(y, weight, geometry, sizes, bias)
    # A convolution with the weight turned round.
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
    """Return what ``_transposed`` does: all shares are computed, and then added where they belong."""
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
    """Return the sums of products over batch and patches: ``(out_channels, in_channels / groups, *kernel)``.

    `x` and `y` have the shapes of what ``convolve`` takes and returns.
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
