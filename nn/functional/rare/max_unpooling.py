"""Max unpooling, the partial inverse of max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nn.functional.checks import array_of
from nn.functional.convolutions import sizes_of
from nn.functional.plane_gather import UNPOOL
from nn.functional.windows import Sizes, pooled_array
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import snapshot
from tensor.ops.dispatch import apply


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
                f"{name}: output_size must hold {len(kernel)} sizes, or {len(kernel) + 2} with batch and "
                f"channels, not {len(found)}"
            )
        for wanted, size, step in zip(found, usual, stride, strict=True):
            if not size - step < wanted < size + step:
                raise InvalidArgumentError(
                    f"{name}: output_size must differ from {usual} by less than the stride, {stride}, not "
                    f"{found}: max pooling with these options reduces no such input to sizes {ins}"
                )
    if min(found) < 0:
        raise InvalidArgumentError(f"{name}: an input of sizes {ins} would give an output of sizes {found}")
    return found


def _max_unpool(
    name: str,
    dims: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    x, given = pooled_array(name, dims, input), array_of(name, "indices", indices)
    kernel = sizes_of(name, "kernel_size", kernel_size, dims, 1)
    sizes = _unpooled_sizes(
        name,
        x.shape[-dims:],
        kernel,
        sizes_of(name, "stride", kernel if stride is None else stride, dims, 1),
        sizes_of(name, "padding", padding, dims, 0),
        output_size,
    )
    if given.dtype != np.int64 or given.shape != x.shape:
        raise InvalidArgumentError(
            f"{name}: indices must be int64 and have the input's shape, {x.shape}, not {given.dtype} and "
            f"{given.shape}: pass those that max_pool{dims}d returns with return_indices=True"
        )
    # Take a snapshot, so that kernels read the checked values even if `indices` is written to later.
    places = np.ascontiguousarray(snapshot(indices))
    room = prod(sizes)
    if places.size and not 0 <= places.min() <= places.max() < room:
        raise InvalidArgumentError(
            f"{name}: for an output of sizes {sizes}, indices must be from 0 to {room - 1}, but they are "
            f"from {places.min()} to {places.max()}: pass the sizes of the pooled input as output_size"
        )

    def kernel_of(x: Array) -> Array:
        out = np.zeros((prod(x.shape[:-dims]), room), x.dtype)
        flat = (out.shape[0], prod(x.shape[-dims:]))
        np.put_along_axis(out, places.reshape(flat), x.reshape(flat), 1)
        return out.reshape(*x.shape[:-dims], *sizes)

    return apply(UNPOOL, kernel_of, (input,), places=places, space=dims)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` at the indices that ``max_pool1d`` returned.

    Parameters
    ----------
    input, indices
        The results of ``max_pool1d`` with ``return_indices=True``.
    kernel_size, stride, padding
        The options of ``max_pool1d``.
    output_size
        The sizes of the result, if several are possible.

    Raises
    ------
    ValueError
        If shapes do not fit, or an index is outside the output.

    Examples
    --------
    >>> import nn, tensor
    >>> found = nn.functional.max_pool1d(tensor.ones((1, 3, 5)), 2, return_indices=True)
    >>> nn.functional.max_unpool1d(*found, 2, output_size=(5,)).shape
    (1, 3, 5)
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` at the indices that ``max_pool2d`` returned.

    Parameters
    ----------
    input, indices
        The results of ``max_pool2d`` with ``return_indices=True``.
    kernel_size, stride, padding
        The options of ``max_pool2d``.
    output_size
        The sizes of the result, if several are possible.

    Raises
    ------
    ValueError
        If shapes do not fit, or an index is outside the output.

    Examples
    --------
    >>> import nn, tensor
    >>> found = nn.functional.max_pool2d(tensor.ones((1, 3, 5, 5)), 2, return_indices=True)
    >>> nn.functional.max_unpool2d(*found, 2, output_size=(5, 5)).shape
    (1, 3, 5, 5)
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` at the indices that ``max_pool3d`` returned.

    Parameters
    ----------
    input, indices
        The results of ``max_pool3d`` with ``return_indices=True``.
    kernel_size, stride, padding
        The options of ``max_pool3d``.
    output_size
        The sizes of the result, if several are possible.

    Raises
    ------
    ValueError
        If shapes do not fit, or an index is outside the output.

    Examples
    --------
    >>> import nn, tensor
    >>> found = nn.functional.max_pool3d(tensor.ones((1, 3, 5, 5, 5)), 2, return_indices=True)
    >>> nn.functional.max_unpool3d(*found, 2, output_size=(5, 5, 5)).shape
    (1, 3, 5, 5, 5)
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)
