"""Pools of the largest element, and what puts elements back to where they were."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from nn.functional.checks import array_of, is_wanted
from nn.functional.convolutions import sizes_of
from nn.functional.windows import (
    Sizes,
    Windows,
    adaptive_windows,
    output_sizes,
    pool_of,
    pooled_array,
    windows_of,
)
from tensor.kernels import add_at_places, as_one_dtype, largest_of_windows, run_kernel, take_places
from tensor.lowlevel import InvalidArgumentError, apply, define, record, wrap, wrap_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.lowlevel import Array

# --- Reading at places of planes, and adding up there: each other's derivatives ----------------------------


def _planes(x: Array, space: int) -> Array:
    """Return `x`, whose last `space` dimensions are a plane's, as ``(planes, depth, height, width)``."""
    sizes = (*(1,) * (3 - space), *x.shape[x.ndim - space :])
    return x.reshape(prod(x.shape[: x.ndim - space]), *sizes)


def _add(g: Array, places: Array, to_shape: tuple[int, ...], space: int) -> Array:
    (wide,) = as_one_dtype(g)
    sizes = (*(1,) * (3 - space), *to_shape[len(to_shape) - space :])
    found = add_at_places(_planes(wide, space), _planes(places, space), sizes)
    return found.reshape(to_shape).astype(g.dtype, copy=False)


def _take(g: Array, places: Array, space: int) -> Array:
    (wide,) = as_one_dtype(g)
    found = take_places(_planes(wide, space), _planes(places, space))
    return found.reshape(places.shape).astype(g.dtype, copy=False)


def _added(xp: Any, g: Any, places: Any, to_shape: tuple[int, ...], space: int) -> Any:
    if not xp.is_recorded:
        return _add(g, places, to_shape, space)
    return apply(_ADD, lambda x: _add(x, places, to_shape, space), (g,), places=places, space=space)


def _taken(xp: Any, g: Any, places: Any, space: int) -> Any:
    if not xp.is_recorded:
        return _take(g, places, space)
    return apply(_TAKE, lambda x: _take(x, places, space), (g,), places=places, space=space)


_LARGEST = define("max_pool", input=_added)
_ADD = define("add_at_places", input=_taken)
_TAKE = define("take_places", input=_added)
_UNPOOL = define("max_unpool", input=_taken)


# --- The largest element of each window ---------------------------------------------------------------------


def _largest(space: int, input: Tensor, x: Array, windows: Sequence[Windows], return_indices: bool) -> Any:
    with_places = return_indices or is_wanted(input)
    one = Windows(np.zeros(1, np.int64), np.ones(1, np.int64), 1)

    def kernel(x: Array) -> tuple[Array, Array | None]:
        (wide,) = as_one_dtype(x)
        found, places = largest_of_windows(
            _planes(wide, space), [*[one] * (3 - space), *windows], with_places
        )
        shape = (*x.shape[: x.ndim - space], *found.shape[4 - space :])
        return (
            found.reshape(shape).astype(x.dtype, copy=False),
            None if places is None else places.reshape(shape),
        )

    out, places = run_kernel(kernel, x)
    if places is None or not return_indices:
        return wrap_recorded(out, record(_LARGEST, (input,), out, {"places": places, "space": space}))
    assert places is not None
    indices = wrap(places)
    # As a tensor: who gets it may write to it.
    pooled = wrap_recorded(out, record(_LARGEST, (input,), out, {"places": indices, "space": space}))
    return pooled, indices


def _max_pool(
    space: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{space}d"
    x = pooled_array(name, space, input)
    pool = pool_of(name, space, kernel_size, stride, padding, dilation, ceil_mode)
    return _largest(space, input, x, windows_of(name, x, pool), return_indices)


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *sizes)``, or without the batch; one size for each dimension of space.
    kernel_size
        The size of a window: one integer, or one for each dimension of space, as below.
    stride
        How far windows lie apart; ``kernel_size`` for None.
    padding
        By how much windows reach beyond the input on both sides, at most half of what they span.
    dilation
        How far the elements of a window lie apart.
    ceil_mode
        Have a last window that reaches beyond the padding, where the windows do not fit evenly.
    return_indices
        Return also where each largest element lies, int64, counted through the dimensions of space: what
        ``max_unpool1d`` takes.

    Returns
    -------
    Shape ``(batch, channels, *outs)``; with `return_indices` a tuple of two such.

    Raises
    ------
    ValueError
        If shapes or options do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool1d(tensor.tensor([[1.0, 3.0, 7.0, 5.0]]), 2).tolist()
    [[3.0, 7.0]]
    """
    return _max_pool(  # type: ignore[no-any-return]
        1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over two dimensions: see ``max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool2d(tensor.ones((8, 3, 7, 5)), 3, stride=2, padding=1).shape
    (8, 3, 4, 3)
    """
    return _max_pool(  # type: ignore[no-any-return]
        2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = ...,
    padding: Sizes = ...,
    dilation: Sizes = ...,
    ceil_mode: bool = ...,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window of `input`, over three dimensions: see ``max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.max_pool3d(tensor.ones((8, 3, 4, 4, 4)), 2).shape
    (8, 3, 2, 2, 2)
    """
    return _max_pool(  # type: ignore[no-any-return]
        3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def _adaptive(space: int, input: Tensor, output_size: object, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{space}d"
    x = pooled_array(name, space, input)
    sizes = output_sizes(name, space, output_size, x)
    windows = [adaptive_windows(size, outs) for size, outs in zip(x.shape[-space:], sizes, strict=True)]
    return _largest(space, input, x, windows, return_indices)


@overload
def adaptive_max_pool1d(
    input: Tensor,
    output_size: Sizes,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def adaptive_max_pool1d(
    input: Tensor,
    output_size: Sizes,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool1d(
    input: Tensor,
    output_size: Sizes,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool1d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of as many windows as `output_size` says, over one dimension.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *sizes)``, or without the batch; one size for each dimension of space.
    output_size
        One integer, or one for each dimension of space; None keeps the size of the input.
    return_indices
        Return also where they lie, as ``max_pool1d`` does.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool1d(tensor.tensor([[1.0, 3.0, 2.0]]), 2).tolist()
    [[3.0, 3.0]]
    """
    return _adaptive(1, input, output_size, return_indices)  # type: ignore[no-any-return]


@overload
def adaptive_max_pool2d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def adaptive_max_pool2d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool2d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool2d(
    input: Tensor, output_size: Sizes | tuple[int | None, ...] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of as many windows as `output_size` says, over two dimensions.

    See ``adaptive_max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool2d(tensor.ones((1, 3, 7, 5)), (2, None)).shape
    (1, 3, 2, 5)
    """
    return _adaptive(2, input, output_size, return_indices)  # type: ignore[no-any-return]


@overload
def adaptive_max_pool3d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def adaptive_max_pool3d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool3d(
    input: Tensor,
    output_size: Sizes | tuple[int | None, ...] | None,
    return_indices: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool3d(
    input: Tensor, output_size: Sizes | tuple[int | None, ...] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of as many windows as `output_size` says, over three dimensions.

    See ``adaptive_max_pool1d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.adaptive_max_pool3d(tensor.ones((1, 3, 7, 5, 4)), 1).shape
    (1, 3, 1, 1, 1)
    """
    return _adaptive(3, input, output_size, return_indices)  # type: ignore[no-any-return]


# --- Back to where they were --------------------------------------------------------------------------------


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
    x, places = pooled_array(name, space, input), array_of(name, "indices", indices)
    kernel = sizes_of(name, "kernel_size", kernel_size, space, 1)
    given = kernel if stride is None else stride
    sizes = _unpooled_sizes(
        name,
        x.shape[-space:],
        kernel,
        sizes_of(name, "stride", given, space, 1),
        sizes_of(name, "padding", padding, space, 0),
        output_size,
    )
    if places.dtype != np.int64 or places.shape != x.shape:
        raise InvalidArgumentError(
            f"{name}: indices are int64 and have the input's shape, {x.shape}, as max_pool{space}d returns "
            f"them with return_indices=True; these are {places.dtype} of shape {places.shape}"
        )
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

    # The tensor of indices: what it holds now is kept, whatever is written later.
    return apply(_UNPOOL, kernel_of, (input,), places=indices, space=space)


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
