"""Padding: add or remove elements at the edges of dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nn.functional.checks import array_of
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.kernels import empty
from tensor.ops.dispatch import apply
from tensor.tape.rules.table import define

# The numbers of elements to add at the start and at the end of each dimension.
Pads = tuple[tuple[int, int], ...]

MODES = ("constant", "reflect", "replicate", "circular")

# --- Padding, and its derivative ----------------------------------------------------------------------------


def _centre(shape: tuple[int, ...], pads: Pads) -> tuple[slice, ...]:
    """Return the slices of the input, the centre, in a padded array of this `shape`."""
    return tuple([slice(before, n - after) for n, (before, after) in zip(shape, pads, strict=True)])


def _edges(size: int, before: int, after: int, mode: str) -> Iterator[tuple[slice, slice]]:
    """Yield two slices of a padded dimension for each edge: the edge, and the elements that it copies.

    `size` is the size of the input, without the edges.
    """
    end = before + size
    if mode == "reflect":
        sources = (
            slice(2 * before, before, -1),
            slice(end - 2, end - 2 - after if end > after + 1 else None, -1),
        )
    elif mode == "replicate":
        sources = slice(before, before + 1), slice(end - 1, end)
    else:
        sources = slice(size, end), slice(before, before + after)
    if before:
        yield slice(0, before), sources[0]
    if after:
        yield slice(end, end + after), sources[1]


def _copies(shape: tuple[int, ...], pads: Pads, mode: str) -> Iterator[tuple[tuple[slice, ...], ...]]:
    """Yield the slices of each edge of a padded array and of its source, in an order that allows copies."""
    centre = list(_centre(shape, pads))
    for axis, (n, (before, after)) in enumerate(zip(shape, pads, strict=True)):
        for target, source in _edges(n - before - after, before, after, mode):
            yield (*centre[:axis], target, *centre[axis + 1 :]), (*centre[:axis], source, *centre[axis + 1 :])
        centre[axis] = slice(None)


def _pad(x: Array, pads: Pads, mode: str, value: complex) -> Array:
    shape = tuple([n + before + after for n, (before, after) in zip(x.shape, pads, strict=True)])
    out = empty(shape, x.dtype)
    out[_centre(shape, pads)] = x
    if mode == "constant":
        for axis, (before, after) in enumerate(pads):
            beside = (slice(None),) * axis
            out[(*beside, slice(0, before))] = value
            out[(*beside, slice(shape[axis] - after, None))] = value
        return out
    for target, source in _copies(shape, pads, mode):
        out[target] = out[source]
    return out


def _unpad(g: Array, pads: Pads, mode: str) -> Array:
    """Return the gradient of the input: add that of each edge to the elements that the edge copies."""
    if mode != "constant":
        g = g.copy()
        for target, source in reversed(list(_copies(g.shape, pads, mode))):
            share = g[target]
            for axis, (n, m) in enumerate(zip(share.shape, g[source].shape, strict=True)):
                if n != m:  # all elements of the edge are copies of one element
                    share = share.sum(axis=axis, keepdims=True)
            g[source] += share
    return g[_centre(g.shape, pads)]


def _padded(xp: Any, g: Any, pads: Pads, mode: str) -> Any:
    if not xp.is_recorded:
        return _pad(g, pads, mode, 0)
    return apply(_PAD, lambda x: _pad(x, pads, mode, 0), (g,), pads=pads, mode=mode)


def _unpadded(xp: Any, g: Any, pads: Pads, mode: str) -> Any:
    if not xp.is_recorded:
        return _unpad(g, pads, mode)
    return apply(_UNPAD, lambda x: _unpad(x, pads, mode).copy(), (g,), pads=pads, mode=mode)


_PAD = define("edge_pad", input=_unpadded)
_UNPAD = define("edge_unpad", input=_padded)

# --- Public function ----------------------------------------------------------------------------------------


def _require_dims(x: Array, count: int, mode: str) -> None:
    """Raise unless `mode` can pad the last `count` dimensions of `x`."""
    if count not in (1, 2, 3) or x.ndim not in (count + 1, count + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads 1 dimension of an input with 2 or 3 dimensions, 2 of 3 or 4, or 3 of 4 "
            f"or 5, but pad has sizes for {count} dimensions, and the input has {x.ndim}"
        )


def _require_room(sizes: Sequence[int], pads: Sequence[tuple[int, int]], mode: str) -> None:
    for size, pair in zip(sizes, pads, strict=True):
        most = {"reflect": size - 1, "circular": size, "replicate": max(pair) if size else 0}[mode]
        if max(pair) > most:
            raise InvalidArgumentError(
                f"pad: mode {mode!r} can add at most {max(most, 0)} elements on each side of a dimension of "
                f"size {size}, not {pair}"
            )


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return `input` with elements added at the edges of its last dimensions.

    Parameters
    ----------
    input
        Any dtype. Any shape for the mode ``"constant"``. Other modes take ``(batch, channels, *sizes)``, or
        without the batch, with one to three sizes, and pad all of them.
    pad
        Two integers for each dimension, before and after, starting with the last dimension. Negative ones
        remove elements.
    mode
        ``"constant"`` adds `value`; ``"reflect"`` mirrors the elements beside the edge element;
        ``"replicate"`` repeats the edge element; ``"circular"`` continues with the opposite edge.
    value
        For the mode ``"constant"``; 0 for None.

    Raises
    ------
    ValueError
        If there are too few elements to copy or to remove, or `pad` does not fit the input.
    NotImplementedError
        If the mode does not support that many dimensions.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[1, 2, 3]])
    >>> nn.functional.pad(x, (1, 2)).tolist(), nn.functional.pad(x, (2, -1), mode="circular").tolist()
    ([[0, 1, 2, 3, 0, 0]], [[1, 2, 1, 2]])
    """
    x = array_of("pad", "input", input)
    if mode not in MODES:
        raise NotImplementedError(f"pad: mode must be one of {MODES}, not {shown(mode)}")
    if not isinstance(pad, (tuple, list)) or any(type(n) is not int for n in pad):
        raise TypeError(f"pad: pad must be a tuple of integers, two for each dimension, not {shown(pad)}")
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise InvalidArgumentError(
            f"pad: pad must hold two integers for each padded dimension, so at most {2 * x.ndim} for this "
            f"input with {x.ndim} dimensions, not {len(pad)}"
        )
    if mode != "constant" and value is not None:
        raise InvalidArgumentError(f"pad: value requires mode 'constant', not {mode!r}")
    count = len(pad) // 2
    pairs = [(pad[2 * i], pad[2 * i + 1]) for i in reversed(range(count))]
    sizes = x.shape[x.ndim - count :]
    lefts = [size + min(pair[0], 0) + min(pair[1], 0) for size, pair in zip(sizes, pairs, strict=True)]
    if min(lefts, default=0) < 0:
        raise InvalidArgumentError(
            f"pad: {tuple(pad)} removes more elements than an input of shape {x.shape} has"
        )
    if mode != "constant":
        _require_dims(x, count, mode)
        _require_room(lefts, pairs, mode)
    if any(min(pair) < 0 for pair in pairs):
        key = [
            slice(max(-before, 0), size - max(-after, 0))
            for size, (before, after) in zip(sizes, pairs, strict=True)
        ]
        input = input[(..., *key)]
    pads = (*((0, 0),) * (x.ndim - count), *[(max(before, 0), max(after, 0)) for before, after in pairs])
    filling = 0 if value is None else value
    return apply(_PAD, lambda x: _pad(x, pads, mode, filling), (input,), pads=pads, mode=mode)
