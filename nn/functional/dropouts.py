"""Dropout of elements, of channels, and alpha dropout."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

import tensor as tn
from nn.functional.checks import check_probability, floating_array_of, is_wanted
from nn.functional.derivatives import RULES
from tensor import Generator, Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.creation.generators import numbers_of
from tensor.kernels import run_kernel, write_wide
from tensor.ops.dispatch import apply, overwrite
from tensor.tape.recording import remember


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with each element zeroed with probability `p`, the others scaled by 1 / (1 - p).

    Parameters
    ----------
    input
        Any shape, floating.
    p
        The probability, from 0 to 1.
    training
        If false, return `input` itself.
    inplace
        Write the result to `input`.
    generator
        The generator of the mask; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> sorted(set(nn.functional.dropout(tensor.ones((50,)), 0.5).tolist()))
    [0.0, 2.0]
    """
    check_probability("dropout", "p", p)
    x = floating_array_of("dropout", "input", input)
    if not training or p == 0:
        return input
    mask = run_kernel(_mask, x.shape, p, numbers_of(generator))
    scale = 1 / (1 - p) if p < 1 else 0.0

    def kernel(x: Array) -> Array:
        out = np.asarray(x * mask)
        out *= scale
        return out

    # Save the mask as bits, an eighth of its memory. Packing takes 1% of the time of a dropout, unpacking 3%.
    bits = run_kernel(np.packbits, mask) if is_wanted(input) else None
    if not inplace:
        parameters = {"bits": bits, "scale": scale}
        dropped = apply(RULES["dropout"], kernel, (input,), **parameters)
        if bits is not None:
            remember(dropped._node, lambda x: _dropped_again(x, bits, scale), (input,))
        return dropped

    def write(array: Array) -> None:
        np.multiply(array, mask, out=array)
        np.multiply(array, scale, out=array)

    overwrite(
        RULES["dropout"], input, lambda array: write_wide(write, array), (input,), bits=bits, scale=scale
    )
    return input


def _dropped_again(x: Array, bits: Array, scale: float) -> Array:
    """Compute a dropout of `x` again, from the bits of its mask."""
    out = np.asarray(x * np.unpackbits(bits, count=x.size).view(np.bool_).reshape(x.shape))
    out *= scale
    return out


# The number of elements of the mask to draw at once, from 32 KiB of random bits.
_DRAWN_AT_ONCE = 2**13


def _mask(shape: tuple[int, ...], p: float, numbers: np.random.Generator) -> Array:
    """Return a mask that is False with probability `p`, up to an error of 2**-32."""
    if p == 1:
        return np.zeros(shape, np.bool_)
    mask = np.empty(shape, np.bool_)
    flat, least = mask.reshape(-1), min(round(p * 2**32), 2**32 - 1)
    for start in range(0, flat.size, _DRAWN_AT_ONCE):
        part = flat[start : start + _DRAWN_AT_ONCE]
        # Use half of a 64-bit word for each element. Floats would take 1.4 times as long.
        chances = numbers.bit_generator.random_raw((part.size + 1) // 2).view(np.uint32)
        np.greater_equal(chances[: part.size], least, out=part)
        del chances  # free the memory before the next allocation
    return mask


# --- Whole channels -----------------------------------------------------------------------------------------


def _channels(name: str, ranks: tuple[int, ...], unbatched: int | None, input: Tensor) -> tuple[int, ...]:
    """Return the shape of a mask with one element for each channel of each sample.

    `ranks` are the possible numbers of dimensions of the input, and `unbatched` is the one without a batch.
    """
    shape = floating_array_of(name, "input", input).shape
    if len(shape) not in ranks:
        raise InvalidArgumentError(
            f"{name}: input must have {' or '.join(map(str, ranks))} dimensions, not shape {shape}"
        )
    before = 1 if len(shape) == unbatched else 2
    return (*shape[:before], *(1 for _ in shape[before:]))


# The arguments `ranks` and `unbatched` of `_channels`, by spatial dimensions. `dropout2d` also takes
# ``(batch, channels)`` and ``(batch, channels, length)``, as in PyTorch, which warns about them.
_RANKS: Final[dict[int, tuple[tuple[int, ...], int | None]]] = {
    1: ((2, 3), 2),
    2: ((2, 3, 4), None),
    3: ((4, 5), 4),
}


def _dropout(
    name: str, dims: int, input: Tensor, p: float, training: bool, inplace: bool, generator: Generator | None
) -> Tensor:
    check_probability(name, "p", p)
    shape = _channels(name, *_RANKS[dims], input)
    if not training or p == 0:
        return input
    mask = dropout(tn.ones(shape, dtype=input.dtype), p, generator=generator)
    return input.mul_(mask) if inplace else input * mask


def dropout1d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with whole channels zeroed with probability `p`, the others scaled by 1 / (1 - p).

    Parameters
    ----------
    input
        Shape ``(batch, channels, length)``, or without the batch, floating.
    p
        The probability, from 0 to 1.
    training
        If false, return `input` itself.
    inplace
        Write the result to `input`.
    generator
        The generator of the mask; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.functional.dropout1d(tensor.ones((5, 9, 2)), 0.5).flatten(2)
    >>> (y == y[..., :1]).all().item()  # a whole channel is zeroed, or none of it
    True
    """
    return _dropout("dropout1d", 1, input, p, training, inplace, generator)


def dropout2d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with whole channels zeroed with probability `p`, the others scaled by 1 / (1 - p).

    Parameters
    ----------
    input
        Shape ``(batch, channels, height, width)``, or without the batch, floating. Three dimensions are
        ``(batch, channels, length)``, as in PyTorch.
    p
        The probability, from 0 to 1.
    training
        If false, return `input` itself.
    inplace
        Write the result to `input`.
    generator
        The generator of the mask; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.functional.dropout2d(tensor.ones((5, 9, 2, 2)), 0.5).flatten(2)
    >>> (y == y[..., :1]).all().item()  # a whole channel is zeroed, or none of it
    True
    """
    return _dropout("dropout2d", 2, input, p, training, inplace, generator)


def dropout3d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with whole channels zeroed with probability `p`, the others scaled by 1 / (1 - p).

    Parameters
    ----------
    input
        Shape ``(batch, channels, depth, height, width)``, or without the batch, floating.
    p
        The probability, from 0 to 1.
    training
        If false, return `input` itself.
    inplace
        Write the result to `input`.
    generator
        The generator of the mask; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.functional.dropout3d(tensor.ones((5, 9, 2, 2, 2)), 0.5).flatten(2)
    >>> (y == y[..., :1]).all().item()  # a whole channel is zeroed, or none of it
    True
    """
    return _dropout("dropout3d", 3, input, p, training, inplace, generator)


# --- For SELU (Klambauer et al., 2017): dropped elements get the lower bound of SELU ------------------------

_LEAST = -1.7580993408473766


def _alpha_dropped(input: Tensor, p: float, inplace: bool, mask: Tensor) -> Tensor:
    """Replace the elements of `input` where `mask`, a dropout of ones, is 0; scale and shift all elements."""
    kept = (mask > 0).to(input.dtype)
    # Scale and shift, so that the mean stays 0 and the variance 1.
    scale = 1 / math.sqrt((1 - p) * (1 + p * _LEAST**2)) if p < 1 else 0.0
    shift = (1 - kept) * (scale * _LEAST) - scale * _LEAST * p
    return input.mul_(kept * scale).add_(shift) if inplace else input * (kept * scale) + shift


def alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with elements replaced with probability `p`, preserving mean 0 and variance 1.

    Replaced elements get the lower bound of SELU. Then all elements are scaled and shifted. `training` is
    false by default, as in PyTorch.

    Parameters
    ----------
    input
        Any shape, floating.
    p
        The probability, from 0 to 1.
    training
        If false, return `input` itself.
    inplace
        Write the result to `input`.
    generator
        The generator of the mask; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> len(set(nn.functional.alpha_dropout(tensor.zeros((50,)), 0.5, True).tolist()))
    2
    """
    check_probability("alpha_dropout", "p", p)
    shape = floating_array_of("alpha_dropout", "input", input).shape
    if not training or p == 0:
        return input
    mask = dropout(tn.ones(shape, dtype=input.dtype), p, generator=generator)
    return _alpha_dropped(input, p, inplace, mask)


def feature_alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with whole channels replaced: see ``alpha_dropout``.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *)``, floating.
    p
        The probability, from 0 to 1.
    training
        If false, return `input` itself.
    inplace
        Write the result to `input`.
    generator
        The generator of the mask; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.functional.feature_alpha_dropout(tensor.zeros((1, 50, 2)), 0.5, True)
    >>> (y[..., 0] == y[..., 1]).all().item()
    True
    """
    check_probability("feature_alpha_dropout", "p", p)
    whole = floating_array_of("feature_alpha_dropout", "input", input).shape
    if len(whole) < 2 and training:
        raise InvalidArgumentError(
            f"feature_alpha_dropout: input must have shape (batch, channels, *), not {whole}"
        )
    if not training or p == 0:
        return input
    shape = (*whole[:2], *(1 for _ in whole[2:]))
    mask = dropout(tn.ones(shape, dtype=input.dtype), p, generator=generator)
    return _alpha_dropped(input, p, inplace, mask)
