"""Max unpooling, the partial inverse of max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from nn.functional.checks import array_of
from nn.functional.convolutions import sizes_of
from nn.functional.dimensions import Family
from nn.functional.plane_gather import UNPOOL
from nn.functional.windows import Sizes, pooled_array
from tensor import Tensor
from tensor.lowlevel import Array, InvalidArgumentError, apply, snapshot


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


@Family
def _max_unpool(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
    *,
    _dims: int = 1,
) -> Tensor:
    """Return zeros with the elements of `input` at the indices that ``max_pool{dims}d`` returned.

    Parameters
    ----------
    input, indices
        The results of ``max_pool{dims}d`` with ``return_indices=True``.
    kernel_size, stride, padding
        The options of ``max_pool{dims}d``.
    output_size
        The sizes of the result, if several are possible.

    Raises
    ------
    ValueError
        If shapes do not fit, or an index is outside the output.

    Examples
    --------
    >>> import nn, tensor
    >>> found = nn.functional.max_pool{dims}d(tensor.ones((1, 3, {sizes[5]})), 2, return_indices=True)
    >>> nn.functional.max_unpool{dims}d(*found, 2, output_size=({sizes[5]},)).shape
    (1, 3, {sizes[5]})
    """
    name = f"max_unpool{_dims}d"
    x, given = pooled_array(name, _dims, input), array_of(name, "indices", indices)
    kernel = sizes_of(name, "kernel_size", kernel_size, _dims, 1)
    sizes = _unpooled_sizes(
        name,
        x.shape[-_dims:],
        kernel,
        sizes_of(name, "stride", kernel if stride is None else stride, _dims, 1),
        sizes_of(name, "padding", padding, _dims, 0),
        output_size,
    )
    if given.dtype != np.int64 or given.shape != x.shape:
        raise InvalidArgumentError(
            f"{name}: indices must be int64 and have the input's shape, {x.shape}, not {given.dtype} and "
            f"{given.shape}: pass those that max_pool{_dims}d returns with return_indices=True"
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
        out = np.zeros((prod(x.shape[:-_dims]), room), x.dtype)
        flat = (out.shape[0], prod(x.shape[-_dims:]))
        np.put_along_axis(out, places.reshape(flat), x.reshape(flat), 1)
        return out.reshape(*x.shape[:-_dims], *sizes)

    return apply(UNPOOL, kernel_of, (input,), places=places, space=_dims)


max_unpool1d: Final = _max_unpool[1]
max_unpool2d: Final = _max_unpool[2]
max_unpool3d: Final = _max_unpool[3]
