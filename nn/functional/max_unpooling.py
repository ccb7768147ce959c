"""Elements that pools have found, back to where they were."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nn.functional.checks import array_of
from nn.functional.convolutions import sizes_of
from nn.functional.plane_places import UNPOOL
from nn.functional.windows import Sizes, pooled_array
from tensor.lowlevel import InvalidArgumentError, apply, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.lowlevel import Array


def _unpooled_sizes(
    name: str,
    ins: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    usual = tuple(
        [
            (n - 1) * step + size - 2 * pad
            for n, step, size, pad in zip(ins, stride, kernel, padding, strict=True)
        ]
    )
    if output_size is None:
        found = usual
    else:
        found = tuple(output_size)
        if len(found) == len(kernel) + 2:
            found = found[2:]
        if len(found) != len(kernel):
            raise InvalidArgumentError(
                f"{name}: output_size has {len(kernel)} sizes, or {len(kernel) + 2} with batch and channels, "
                f"not {len(found)}"
            )
        for wanted, size, step in zip(found, usual, stride, strict=True):
            if not size - step < wanted < size + step:
                raise InvalidArgumentError(
                    f"{name}: output_size is within {stride} of {usual}, not {found}: no pool with these "
                    "options gives the input from such sizes"
                )
    if min(found) < 0:
        raise InvalidArgumentError(f"{name}: an input of sizes {ins} would give an output of sizes {found}")
    return found


def _unpool(
    space: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    name = f"max_unpool{space}d"
    x, given = pooled_array(name, space, input), array_of(name, "indices", indices)
    kernel = sizes_of(name, "kernel_size", kernel_size, space, 1)
    sizes = _unpooled_sizes(
        name,
        x.shape[-space:],
        kernel,
        sizes_of(name, "stride", kernel if stride is None else stride, space, 1),
        sizes_of(name, "padding", padding, space, 0),
        output_size,
    )
    if given.dtype != np.int64 or given.shape != x.shape:
        raise InvalidArgumentError(
            f"{name}: indices are int64 and have the input's shape, {x.shape}, as max_pool{space}d returns "
            f"them with return_indices=True; these are {given.dtype} of shape {given.shape}"
        )
    # A snapshot: kernels read the values that are checked here, even if `indices` is written to later.
    places = np.ascontiguousarray(snapshot(indices))
    room = prod(sizes)
    if places.size and not 0 <= places.min() <= places.max() < room:
        raise InvalidArgumentError(
            f"{name}: indices are from 0 to {room - 1}, the elements of an output of sizes {sizes}; these "
            f"are from {places.min()} to {places.max()}: give the output_size that was pooled"
        )

    def kernel_of(x: Array) -> Array:
        out = np.zeros((prod(x.shape[:-space]), room), x.dtype)
        flat = (out.shape[0], prod(x.shape[-space:]))
        np.put_along_axis(out, places.reshape(flat), x.reshape(flat), 1)
        return out.reshape(*x.shape[:-space], *sizes)

    return apply(UNPOOL, kernel_of, (input,), places=places, space=space)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` where ``max_pool1d`` had found them.

    Parameters
    ----------
    input, indices
        What ``max_pool1d`` returns with ``return_indices=True``.
    kernel_size, stride, padding
        The options that it had.
    output_size
        The sizes that it had pooled, where several are pooled to the same.

    Raises
    ------
    ValueError
        If shapes do not fit, or an index lies outside of the output.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[1.0, 3.0, 7.0, 5.0]])
    >>> found = nn.functional.max_pool1d(x, 2, return_indices=True)
    >>> nn.functional.max_unpool1d(*found, 2).tolist()
    [[0.0, 3.0, 7.0, 0.0]]
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` where ``max_pool2d`` had found them: see ``max_unpool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> found = nn.functional.max_pool2d(tensor.ones((1, 3, 5, 5)), 2, return_indices=True)
    >>> nn.functional.max_unpool2d(*found, 2, output_size=(5, 5)).shape
    (1, 3, 5, 5)
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` where ``max_pool3d`` had found them: see ``max_unpool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> found = nn.functional.max_pool3d(tensor.ones((1, 3, 4, 4, 4)), 2, return_indices=True)
    >>> nn.functional.max_unpool3d(*found, 2).shape
    (1, 3, 4, 4, 4)
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
