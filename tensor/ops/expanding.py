"""Expand dimensions without a copy, and repeat elements with a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of, expanded, sizes_of
from tensor.core.tensor import TensorCore
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_data, as_tensor
from tensor.ops.dispatch import apply, over
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_BROADCAST_TO = RULES["broadcast_to"]
_TAKE = RULES["take"]
_TILE = RULES["tile"]


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Return a view of `x` in a shape that it broadcasts to.

    Several of its elements may share one memory location.

    Raises
    ------
    ValueError
        If `x` does not broadcast to `shape`.

    Examples
    --------
    >>> import tensor
    >>> tensor.broadcast_to(tensor.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    sizes = sizes_of("broadcast_to", (shape,))
    if -1 in sizes:
        raise InvalidArgumentError(
            f"broadcast_to: sizes must be at least 0, not {sizes}; x.expand(...) takes -1 for a size to keep"
        )
    return view_of_shape(as_tensor(x), sizes)


def view_of_shape(x: TensorCore, shape: tuple[int, ...]) -> Tensor:
    array = x._array
    if array is None:
        x._raise_disposed()
    sizes, strides = expanded(array.shape, array.strides, shape)
    owner = array.base
    if owner.__class__ is not np.ndarray:
        owner = array
    flags, owner_flags = array.flags, owner.flags
    # A read-only tensor of ``from_blob`` or DLPack can share memory that others may write to.
    is_writable = flags.writeable and owner_flags.writeable
    if array.nbytes == owner.nbytes > 0 and flags.forc and owner_flags.forc and is_writable:
        # The array covers all memory of `owner`: np.ndarray takes 400 ns, np.broadcast_to 3,300 ns.
        out = np.ndarray(sizes, array.dtype, owner, 0, strides)
    else:
        out = np.broadcast_to(array, sizes) if sizes != array.shape else array.view()
        if flags.writeable:
            # NumPy marks expanded arrays and their views read-only. Here `begin_write` checks the strides.
            out.flags.writeable = True
    return over(x, array, out, _BROADCAST_TO)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which `shapes` broadcast.

    Examples
    --------
    >>> import tensor
    >>> tensor.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    sizes = [sizes_of("broadcast_shapes", (shape,)) for shape in shapes]
    try:
        return np.broadcast_shapes(*sizes)
    except ValueError:
        raise InvalidArgumentError(
            f"shapes {' and '.join(map(shown, shapes))} don't broadcast together: from the last dimension "
            "backward, sizes must be equal or 1"
        ) from None


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return views of `arrays` in the shape to which they broadcast.

    Examples
    --------
    >>> import tensor
    >>> a, b = tensor.broadcast_arrays(tensor.zeros((2, 1)), tensor.zeros((3,)))
    >>> a.shape, b.shape
    ((2, 3), (2, 3))
    """
    xs = [as_tensor(x) for x in arrays]
    shape = broadcast_shapes(*[x.shape for x in xs])
    return [broadcast_to(x, shape) for x in xs]


broadcast_tensors = broadcast_arrays


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Return `x` tiled `repetitions` times along each dimension.

    Examples
    --------
    >>> import tensor
    >>> tensor.tile(tensor.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    x = as_tensor(x)
    times = sizes_of("tile", (repetitions,))
    if any(n < 0 for n in times):
        raise InvalidArgumentError(f"tile: repetitions must be at least 0, not {times}")
    ndim = max(len(times), len(x.shape))
    times = (1,) * (ndim - len(times)) + times
    sizes = (1,) * (ndim - len(x.shape)) + x.shape
    return apply(_TILE, lambda a: np.tile(a, times), (x,), sizes=sizes, times=times)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return `x` with each element, or each slice along `axis`, repeated `repeats` times.

    Parameters
    ----------
    repeats
        The number of repeats: one integer for all slices, or one for each.
    axis
        None flattens `x` first.

    Examples
    --------
    >>> import tensor
    >>> tensor.repeat(tensor.tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    >>> tensor.repeat(tensor.tensor([1, 2]), tensor.tensor([0, 3])).tolist()
    [2, 2, 2]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = x.reshape(x.numel()), 0
    place = dim_of("repeat", axis, len(x.shape))
    size = x.shape[place]
    times = as_data(repeats, None)
    if times.dtype.kind not in "iu" or times.ndim > 1 or (times < 0).any():
        raise InvalidArgumentError(
            "repeat: repeats must be integers of at least 0, one for all slices or one for each"
        )
    if times.size not in (1, size):
        raise InvalidArgumentError(
            f"repeat: {times.size} repeats don't match {size} slices along dimension {axis}: give {size}, or "
            "one"
        )
    indices = run_kernel(np.repeat, np.arange(size), times)
    return apply(_TAKE, lambda a: a.take(indices, place), (x,), indices=indices, axis=place, shape=x.shape)
