"""The windows of pooling functions, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from nn.functional.checks import floating_array_of
from nn.functional.convolutions import sizes_of
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown

# One integer, or one for each spatial dimension.
Sizes = int | tuple[int, ...] | list[int]
# The same for the output of adaptive pooling. None means the size of the input.
OutputSizes = Sizes | tuple[int | None, ...] | None


class Windows(NamedTuple):
    """The windows along one dimension: ``counts[i]`` elements from ``starts[i]``, in steps of `step`."""

    starts: Array
    counts: Array
    step: int


class Pool(NamedTuple):
    """The options of a pooling function: tuples with one entry for each spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool


def pool_of(
    name: str,
    space: int,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Pool:
    """Check the user's options, and return them."""
    kernel = sizes_of(name, "kernel_size", kernel_size, space, 1)
    # As in PyTorch, an empty list means the default.
    given = kernel if stride is None or stride in ((), []) else stride
    pool = Pool(
        kernel,
        sizes_of(name, "stride", given, space, 1),
        sizes_of(name, "padding", padding, space, 0),
        sizes_of(name, "dilation", dilation, space, 1),
        ceil_mode,
    )
    for pad, size, step in zip(pool.padding, kernel, pool.dilation, strict=True):
        span = step * (size - 1) + 1
        if 2 * pad > span:
            raise InvalidArgumentError(
                f"{name}: padding must be at most {span // 2}, half of the {span} elements that the kernel "
                f"spans, not {shown(padding)}: a window could hold padding only"
            )
    return pool


def pooled_array(name: str, space: int, input: Tensor) -> Array:
    """Check the shape of `input`, ``(batch, channels, *sizes)`` or without the batch. Return its array."""
    x = floating_array_of(name, "input", input)
    if x.ndim not in (space + 1, space + 2):
        raise InvalidArgumentError(
            f"{name}: input must have shape (batch, channels, *sizes) or (channels, *sizes), with {space} "
            f"{'size' if space == 1 else 'sizes'}, not {x.shape}"
        )
    if 0 in x.shape[1:] or (x.ndim == space + 1 and 0 in x.shape):
        raise InvalidArgumentError(
            f"{name}: only the batch may have size 0, but the input has shape {x.shape}"
        )
    return x


def count_of_windows(name: str, size: int, pool: Pool, dim: int) -> int:
    """Return the number of windows along the spatial dimension `dim`, which has `size` elements."""
    pad, step = pool.padding[dim], pool.stride[dim]
    span = pool.dilation[dim] * (pool.kernel[dim] - 1) + 1
    room = size + 2 * pad - span
    count = (room + (step - 1 if pool.ceil_mode else 0)) // step + 1
    if pool.ceil_mode and (count - 1) * step >= size + pad:
        count -= 1  # the last window would start after the end of the input
    if count < 1:
        raise InvalidArgumentError(
            f"{name}: the kernel with its dilation spans {span} elements, but an input of size {size} with "
            f"padding {pad} has only {size + 2 * pad}: pass a smaller kernel_size or dilation"
        )
    return count


@lru_cache(256)
def _windows(name: str, size: int, pool: Pool, dim: int) -> Windows:
    step = pool.dilation[dim]
    firsts = np.arange(count_of_windows(name, size, pool, dim)) * pool.stride[dim] - pool.padding[dim]
    ends = np.minimum(firsts + step * (pool.kernel[dim] - 1) + 1, size)
    # Skip the elements of a window that are in the padding before the input.
    starts = np.where(firsts < 0, firsts + -(firsts // step) * step, firsts)
    counts = -((starts - ends) // step)
    if counts.min() < 1:
        raise InvalidArgumentError(
            f"{name}: with kernel_size {pool.kernel[dim]}, dilation {step} and padding {pool.padding[dim]}, "
            f"a window contains no element of an input of size {size}"
        )
    return Windows(starts, counts, step)


def windows_of(name: str, x: Array, pool: Pool) -> list[Windows]:
    """Return the windows along each spatial dimension of `x`."""
    space = len(pool.kernel)
    return [_windows(name, size, pool, dim) for dim, size in enumerate(x.shape[-space:])]


@lru_cache(256)
def adaptive_windows(size: int, outs: int) -> Windows:
    """Return `outs` windows that cover `size` elements. Their sizes differ by at most one."""
    i = np.arange(outs)
    starts = i * size // max(outs, 1)
    return Windows(starts, -(-(i + 1) * size // max(outs, 1)) - starts, 1)


def output_sizes(name: str, space: int, output_size: object, x: Array) -> tuple[int, ...]:
    """Return the requested sizes of the output of adaptive pooling. None means the size of the input."""
    many: tuple[Any, ...] = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,)
    if None not in many:
        return sizes_of(name, "output_size", output_size, space, 0)
    if len(many) == 1:
        many *= space
    if len(many) == space:
        many = tuple([own if n is None else n for n, own in zip(many, x.shape[-space:], strict=True)])
    return sizes_of(name, "output_size", many, space, 0)


def sizes_given(sizes: Sequence[int | None] | int | None) -> Any:
    """Return `sizes` as a layer stores and shows them: a list as a tuple."""
    return tuple(sizes) if isinstance(sizes, list) else sizes
