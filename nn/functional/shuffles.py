"""Pixel shuffle, pixel unshuffle and channel shuffle."""

from __future__ import annotations

from nn.functional.checks import array_of
from tensor import Tensor
from tensor._errors import InvalidArgumentError, shown


def _require_factor(name: str, what: str, factor: object) -> None:
    if type(factor) is not int or factor < 1:
        raise InvalidArgumentError(f"{name}: {what} must be an integer of at least 1, not {shown(factor)}")


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return ``(*, channels, height * r, width * r)`` made of ``(*, channels * r * r, height, width)``.

    Each group of r * r channels becomes one channel, r times as high and wide (Shi et al., 2016).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.pixel_shuffle(tensor.arange(4.0).reshape((4, 1, 1)), 2).tolist()
    [[[0.0, 1.0], [2.0, 3.0]]]
    """
    r, shape = upscale_factor, array_of("pixel_shuffle", "input", input).shape
    _require_factor("pixel_shuffle", "upscale_factor", r)
    if len(shape) < 3 or shape[-3] % (r * r):
        raise InvalidArgumentError(
            "pixel_shuffle: input must have shape (*, channels, height, width), with channels divisible by "
            f"{r * r}, not {shape}"
        )
    *rest, channels, height, width = shape
    n = len(rest)
    parts = input.reshape((*rest, channels // (r * r), r, r, height, width))
    moved = parts.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return moved.reshape((*rest, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return ``(*, channels * r * r, height, width)`` made of ``(*, channels, height * r, width * r)``.

    The inverse of ``pixel_shuffle``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.pixel_unshuffle(tensor.arange(4.0).reshape((1, 2, 2)), 2).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    r, shape = downscale_factor, array_of("pixel_unshuffle", "input", input).shape
    _require_factor("pixel_unshuffle", "downscale_factor", r)
    if len(shape) < 3 or shape[-2] % r or shape[-1] % r:
        raise InvalidArgumentError(
            "pixel_unshuffle: input must have shape (*, channels, height, width), with height and width "
            f"divisible by {r}, not {shape}"
        )
    *rest, channels, height, width = shape
    n = len(rest)
    parts = input.reshape((*rest, channels, height // r, r, width // r, r))
    moved = parts.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return moved.reshape((*rest, channels * r * r, height // r, width // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return `input`, ``(batch, channels, *)``, with the channels of its groups interleaved.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.channel_shuffle(tensor.arange(4).reshape((1, 4, 1)), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    shape = array_of("channel_shuffle", "input", input).shape
    _require_factor("channel_shuffle", "groups", groups)
    if len(shape) < 3 or shape[1] % groups:
        raise InvalidArgumentError(
            "channel_shuffle: input must have shape (batch, channels, *sizes), with channels divisible by "
            f"{groups}, not {shape}"
        )
    batch, channels, *sizes = shape
    parts = input.reshape((batch, groups, channels // groups, *sizes))
    return parts.transpose(1, 2).reshape(shape)
